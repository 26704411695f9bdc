"""`sokovan key`."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.canned_server import CannedServer, Sokovan

KEY = {"access_key": "AK-1", "user": "ada", "policy": None, "active": True}
ME = {"user": "ada", "role": "user", "domain": "d", "groups": [], "access_key": "AK-0"}


def test_keys_are_listed_without_their_secrets(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET keys", {"items": [KEY]})
    assert sokovan("key", "ls")[1].splitlines()[1].split() == ["AK-1", "ada", "yes", "-"]


def test_a_new_key_is_shown_once(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET whoami", ME)
    server.says("POST keys", {**KEY, "token": "sk-AK-1.x"}, status=201)
    status, out, err = sokovan("key", "add")
    assert status == 0
    assert "token  sk-AK-1.x" in out
    assert "not shown again" in err
    assert "sk-AK-1.x" in json.loads(sokovan("key", "add", "bob", "--quota", "q", "--json")[1]).values()
    assert [body for line, body in server.asked if line == "POST keys"] == [
        {"user": "ada"},
        {"user": "bob", "policy": "q"},
    ]


def test_a_key_is_revoked_after_a_confirmation(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("DELETE keys/AK-1", None, status=204)
    assert sokovan("key", "rm", "AK-1")[0] == 2
    assert sokovan("key", "rm", "AK-1", "--yes") == (0, "", "API key AK-1 revoked\n")


@pytest.mark.slow
def test_the_quota_of_a_key_is_set_and_removed(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT keys/AK-1", {**KEY, "policy": "q"})
    assert sokovan("key", "set", "AK-1", "--quota", "q") == (0, "", "API key AK-1 has quota q\n")
    assert sokovan("key", "set", "AK-1", "--quota", "") == (0, "", "API key AK-1 has no quota of its own\n")
    assert [body for line, body in server.asked if line == "PUT keys/AK-1"] == [{"policy": "q"}, {}]
    assert sokovan("key", "set", "AK-1")[0] == 2
