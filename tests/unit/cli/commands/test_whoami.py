"""`sokovan whoami`: who one is to the server."""

from __future__ import annotations

from tests.unit.cli.canned_server import CannedServer, Sokovan


def test_the_authenticated_user_is_shown(server: CannedServer, sokovan: Sokovan) -> None:
    me = {"user": "ada", "role": "user", "domain": "d", "groups": ["nlp", "x"], "access_key": "AK-1"}
    server.says("GET whoami", me)
    assert sokovan("whoami")[1].splitlines()[0].split() == ["user", "ada"]
    assert sokovan("whoami", "-o", "name")[1] == "ada\n"


def test_a_wrong_key_is_4(server: CannedServer, sokovan: Sokovan) -> None:
    server.refuses("GET whoami", 401, "unauthenticated")
    assert sokovan("whoami")[0] == 4
