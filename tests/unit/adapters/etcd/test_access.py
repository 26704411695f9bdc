"""Endpoints and credentials of etcd."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.adapters.etcd.access import EtcdAccess
from sokovan.domain.errors import InvalidSpec


def test_endpoints_are_urls_or_hosts_with_ports() -> None:
    access = EtcdAccess(("http://one:2379", "two:2380", "three", "http://10.0.0.4"))
    assert access.hosts() == [("one", 2379), ("two", 2380), ("three", 2379), ("10.0.0.4", 2379)]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"endpoints": ()}, "endpoints = (): must name at least one"),
        ({"endpoints": ("ftp://x",)}, "endpoints = 'ftp://x': must be http or https"),
        ({"endpoints": ("https://x",)}, "ca_certificate = None: is needed for https"),
        ({"password": "p"}, "username = '': is needed with a password"),
        ({"client_key": b"k"}, "client_key = '...': and client_certificate go together"),
        ({"client_certificate": b"c"}, "client_key = '...': and client_certificate go together"),
        ({"deadline_s": 0}, "deadline_s = 0: must be more than 0"),
    ],
)
def test_access_that_cannot_work_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        EtcdAccess(**{"endpoints": ("x",), **given})
    assert refused.value.message == f"access to etcd: {problem}"


def test_secrets_are_not_printed() -> None:
    given = "hunter2"
    access = EtcdAccess(("x",), username="u", password=given, client_certificate=b"d", client_key=given.encode())
    assert "hunter" not in repr(access)
