"""Requests for sessions from options and flags."""

from __future__ import annotations

import pytest

from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.session_request import read_mount, read_port, session_body, slots_of, words_of
from sokovan.wire.api.sessions import MountBody, RetryBody, RunOptions, ServicePortBody, SessionBody


def test_a_command_is_split_into_arguments_without_a_shell() -> None:
    assert session_body("python -c 'print(1)' $HOME").command == ["python", "-c", "print(1)", "$HOME"]
    assert session_body(["a b", "c"]).command == ["a b", "c"]


def test_a_quote_that_never_ends_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="cannot be split"):
        words_of("echo 'x")


def test_amounts_go_to_their_slots() -> None:
    body = session_body("x", cpus=2, mem="4GiB", gpus=8, resources={"tpu.device": 1})
    assert body.resources == {"tpu.device": 1, "cpu": 2, "mem": "4GiB", "cuda.device": 8}


@pytest.mark.parametrize(
    ("amount", "slot"),
    [(1, "cuda.device"), ("8", "cuda.device"), (1.0, "cuda.device"), (0.5, "cuda.shares"), ("0.25", "cuda.shares")],
)
def test_a_part_of_a_gpu_is_a_share(amount: float | str, slot: str) -> None:
    assert slots_of({"gpu": amount}) == {slot: amount}


def test_omitted_options_are_left_to_the_server() -> None:
    assert session_body("x") == SessionBody(command=["x"])


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="no option 'gpu'"):
        session_body("x", gpu=1)  # type: ignore[call-arg]  # the mistake that is tested


def test_every_field_of_a_request_has_an_option() -> None:
    named = set(RunOptions.__annotations__) - {"cpus", "mem", "gpus", "attempts"} | {"command"}
    assert named == set(SessionBody.__dataclass_fields__) - {"__pydantic_config__"}


def test_options_override_a_base_and_mappings_are_merged() -> None:
    base = SessionBody(name="a", command=["x"], size=4, environment={"A": "1", "B": "2"}, resources={"cpu": 1})
    body = session_body(base=base, size=1, environment={"B": "3"}, mem="1GiB")
    assert (body.name, body.command, body.size) == ("a", ["x"], 1)
    assert (body.environment, body.resources) == ({"A": "1", "B": "3"}, {"cpu": 1, "mem": "1GiB"})


def test_mounts_are_read_only_by_default() -> None:
    assert read_mount("/a:/b") == MountBody(source="/a", target="/b", read_only=True)
    assert read_mount("/a:/b:ro").read_only
    assert not read_mount("/a:/b:rw").read_only
    assert session_body("x", mounts=["/a:/b", MountBody(source="/c", target="/d")]).mounts[1].source == "/c"


def test_service_ports_have_a_name() -> None:
    assert read_port("notebook=8888") == ServicePortBody(name="notebook", port=8888)
    assert read_port("notebook") == ServicePortBody(name="notebook", port=0)
    assert read_port("ssh/tcp") == ServicePortBody(name="ssh", port=0, protocol="tcp")
    assert read_port("ssh=22/tcp") == ServicePortBody(name="ssh", port=22, protocol="tcp")
    assert session_body("x", ports=["a=1", ServicePortBody(name="b", port=2)]).ports[1].name == "b"


@pytest.mark.parametrize("text", ["", "8888", "a=", "=1", "a=x", "a=1/udp", "a=123456"])
def test_an_invalid_service_port_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="is not a service port"):
        read_port(text)


@pytest.mark.parametrize("text", ["", "/a", ":/b", "/a:", "/a:/b:wr", "/a:/b:rw:x"])
def test_an_invalid_mount_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="is not a mount"):
        read_mount(text)


def test_attempts_are_those_of_the_retry_policy() -> None:
    assert session_body("work", attempts=5).retry == RetryBody(attempts=5)
    base = SessionBody(retry=RetryBody(backoff="1m", elsewhere=False))
    assert session_body(base=base, attempts=1).retry == RetryBody(attempts=1, backoff="1m", elsewhere=False)


@pytest.mark.parametrize("resources", [{"cpu": 9}, {"gpu": 1, "cuda.device": 2}])
def test_a_slot_that_is_given_twice_is_refused(resources: dict[str, int]) -> None:
    with pytest.raises(InvalidSetting, match="is given twice"):
        session_body("x", cpus=2, resources=resources)
