"""The document of a request; the property tests read every field of it back."""

from __future__ import annotations

from sokovan.sdk.spec.session_document import session_document
from sokovan.wire.api.sessions import KernelGroupBody, MountBody, RetryBody, SessionBody

HEAD = {"apiVersion": "sokovan/v1", "kind": "Session"}


def test_defaults_are_left_out_and_a_missing_folder_is_stated() -> None:
    assert session_document(SessionBody()) == {**HEAD, "workdir": "none"}
    assert session_document(SessionBody(upload="ab")) == {**HEAD, "upload": "ab"}


def test_inner_values_have_the_keys_of_the_file() -> None:
    body = SessionBody(
        groups=[KernelGroupBody(name="w", size=2, command=["a", "b"])],
        mounts=[MountBody(source="/a", target="/b", read_only=False)],
        retry=RetryBody(attempts=5),
        workdir="/srv",
        time_limit=60,
    )
    assert session_document(body) == {
        **HEAD,
        "groups": [{"name": "w", "size": 2, "command": ["a", "b"]}],
        "mounts": [{"source": "/a", "target": "/b", "readOnly": False}],
        "retry": {"attempts": 5},
        "workdir": "/srv",
        "timeLimit": 60,
    }


def test_a_document_refers_to_nothing_that_is_not_its_own() -> None:
    body = SessionBody(environment={"A": "1"}, workdir="/srv")
    session_document(body)["environment"]["A"] = "2"
    assert body.environment == {"A": "1"}
