"""`sokovan version`: of the client, and of the server if one answers."""

from __future__ import annotations

import json

import pytest

from sokovan import __version__
from tests.unit.cli.canned_server import CannedServer, Sokovan


def test_both_versions_are_shown(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET health", {"status": "ok", "version": "9.9", "parts": {}})
    assert sokovan("version")[1].split() == ["client", __version__, "server", "9.9"]
    assert json.loads(sokovan("version", "--json")[1])["url"] == server.url


def test_a_server_that_cannot_be_asked_is_no_failure(
    server: CannedServer, sokovan: Sokovan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOKOVAN_URL", "http://127.0.0.1:1")
    status, out, _ = sokovan("version")
    assert status == 0
    assert "server  unknown: the server at http://127.0.0.1:1 cannot be reached" in out
    monkeypatch.delenv("SOKOVAN_TOKEN")
    assert "no API key is known" in sokovan("version")[1]
    assert server.asked == []
