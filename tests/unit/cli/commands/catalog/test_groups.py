"""`sokovan group`: projects."""

from __future__ import annotations

from tests.unit.cli.canned_server import CannedServer, Sokovan

ME = {"user": "ada", "role": "admin", "domain": "physics", "groups": [], "access_key": "AK-1"}


def test_a_new_project_is_in_the_domain_of_who_makes_it(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET whoami", ME)
    server.says("PUT groups/nlp", {"name": "nlp", "domain": "physics"}, status=201)
    assert sokovan("group", "set", "nlp", "--quota", "big")[0] == 0
    assert server.body("PUT groups/nlp") == {"name": "nlp", "domain": "physics", "policy": "big"}


def test_a_domain_that_is_said_needs_no_asking(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT groups/nlp", {"name": "nlp", "domain": "d"}, status=201)
    assert sokovan("group", "set", "nlp", "--domain", "d")[0] == 0
    assert "GET whoami" not in server.lines
