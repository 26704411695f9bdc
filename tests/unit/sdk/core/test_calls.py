"""Requests as data."""

from __future__ import annotations

import pytest

from sokovan.sdk.core.calls import api_path, query, sparse
from sokovan.sdk.errors import InvalidObjectName
from sokovan.wire.api.sessions import KernelGroupBody, MountBody, SessionBody


def test_a_path_keeps_the_characters_of_names_and_escapes_the_rest() -> None:
    assert api_path("images", "pytorch/pytorch:2.9") == "/api/v1/images/pytorch/pytorch:2.9"
    assert api_path("sessions", "a b?c#d%") == "/api/v1/sessions/a%20b%3Fc%23d%25"


@pytest.mark.parametrize("name", ["", ".", "..", "a/../b", "a//b", "/a", "a/", "x" * 301])
def test_a_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidObjectName):
        api_path("sessions", name)


def test_only_parameters_that_are_set_stand_in_a_query() -> None:
    assert query({"a": None, "b": False, "c": True, "d": 0, "e": "x"}) == {"c": "true", "d": "0", "e": "x"}


def test_a_body_omits_fields_at_their_default() -> None:
    body = SessionBody(command=["x"], mounts=[MountBody(source="/a", target="/b")], priority=0)
    assert sparse(body) == {"command": ["x"], "mounts": [{"source": "/a", "target": "/b"}]}


def test_fields_without_a_default_are_always_sent() -> None:
    group = KernelGroupBody(name="workers", resources={})
    assert sparse(SessionBody(groups=[group])) == {"groups": [{"name": "workers", "resources": {}}]}
