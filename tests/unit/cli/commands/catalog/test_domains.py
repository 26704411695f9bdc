"""`sokovan domain`: the widest tenants."""

from __future__ import annotations

from tests.unit.cli.canned_server import CannedServer, Sokovan


def test_a_domain_is_made_and_put_under_limits(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT domains/physics", {"name": "physics"}, status=201)
    assert sokovan("domain", "set", "physics", "--quota", "big") == (0, "", "domain physics made\n")
    assert server.body("PUT domains/physics") == {"name": "physics", "policy": "big"}
