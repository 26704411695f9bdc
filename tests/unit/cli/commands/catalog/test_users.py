"""`sokovan user`: people and service accounts."""

from __future__ import annotations

import json

from tests.unit.cli.canned_server import CannedServer, Sokovan


def test_a_change_for_programs_is_the_user_as_he_is_kept(server: CannedServer, sokovan: Sokovan) -> None:
    ada = {"name": "ada", "domain": "default", "role": "user", "groups": ["nlp"], "policy": None}
    server.says("GET users/ada", ada)
    server.says("PUT users/ada", ada)
    status, out, err = sokovan("user", "set", "ada", "--group", "nlp", "--json")
    assert (status, json.loads(out)["groups"], err) == (0, ["nlp"], "")


def test_a_user_is_made_with_role_and_projects(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT users/ada", {"name": "ada", "domain": "d"}, status=201)
    words = ("--domain", "d", "--group", "nlp", "--group", "vision", "--role", "domain-admin", "--quota", "q")
    assert sokovan("user", "set", "ada", *words)[0] == 0
    assert server.body("PUT users/ada") == {
        "name": "ada",
        "domain": "d",
        "groups": ["nlp", "vision"],
        "policy": "q",
        "role": "domain-admin",
    }


def test_a_role_that_there_is_not_is_a_usage_error(server: CannedServer, sokovan: Sokovan) -> None:
    status, _, err = sokovan("user", "set", "ada", "--role", "king")
    assert (status, server.asked) == (2, [])
    assert "Choose from" in err
