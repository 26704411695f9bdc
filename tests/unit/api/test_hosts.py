"""Which names this server answers to."""

from __future__ import annotations

import pytest

from sokovan.api.errors import ForeignOrigin
from sokovan.api.hosts import host_name, require_own

OWN = frozenset({"127.0.0.1", "localhost", "[::1]", "sokovan.example"})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("127.0.0.1:7646", "127.0.0.1"),
        ("LocalHost", "localhost"),
        ("[::1]:80", "[::1]"),
        ("a.b-c_d:1", "a.b-c_d"),
        ("", None),
        ("a b", None),
        ("a:b", None),
        ("user@localhost", None),
        ("localhost:123456", None),
        ("localhost,evil", None),
    ],
)
def test_a_host_header_names_one_host(text: str, name: str | None) -> None:
    assert host_name(text) == name


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:7646", None),
        ("localhost", "http://localhost:3000"),
        ("127.0.0.1:7646", "https://sokovan.example"),
        ("[::1]:7646", "http://[::1]:7646"),
    ],
)
def test_own_names_are_answered(host: str, origin: str | None) -> None:
    require_own(host, origin, OWN)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (None, None),
        ("", None),
        ("evil.example", None),
        ("localhost.evil.example", None),
        ("evil-localhost", None),
        ("localhost", "http://evil.example"),
        ("localhost", "null"),
        ("localhost", ""),
        ("localhost", "http://localhost.evil.example"),
        ("localhost", "file://localhost"),
        ("localhost", "http://localhost@evil.example"),
    ],
)
def test_foreign_names_and_pages_are_refused(host: str | None, origin: str | None) -> None:
    with pytest.raises(ForeignOrigin):
        require_own(host, origin, OWN)
