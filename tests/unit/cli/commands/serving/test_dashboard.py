"""`sokovan dashboard` and `sokovan login`."""

from __future__ import annotations

from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.deployment_views import NOON

LOGIN = {
    "id": "LI-1",
    "user": "ada",
    "access_key": "AK-1",
    "created_at": NOON,
    "used_at": NOON,
    "expires_at": NOON,
    "address": "127.0.0.1",
}


def test_the_address_with_a_code_is_printed(server: CannedServer, sokovan: Sokovan) -> None:
    code = {"code": "LC-1.x", "path": "/ui/#code=LC-1.x", "expires_at": NOON}
    server.says("POST login-codes", code, status=201)
    status, out, err = sokovan("dashboard")
    assert (status, out) == (0, f"{server.url}/ui/#code=LC-1.x\n")
    assert "works once" in err


def test_logins_are_listed(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET logins", {"items": [LOGIN]})
    row = sokovan("login", "ls", "--utc")[1].splitlines()[1]
    assert row.split()[:4] == ["LI-1", "ada", "AK-1", "127.0.0.1"]
    assert sokovan("login", "ls", "-o", "name")[1] == "LI-1\n"


def test_a_login_is_ended_after_a_confirmation(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("DELETE logins/LI-1", None, status=204)
    assert sokovan("login", "rm", "LI-1")[0] == 2
    assert sokovan("login", "rm", "LI-1", "--yes") == (0, "", "login LI-1 ended\n")
