"""`sokovan token`."""

from __future__ import annotations

from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.deployment_views import NOON

TOKEN = {"id": "t-1", "deployment": "d-1", "name": "ci", "models": [], "created_at": NOON, "requests_per_minute": 60}


def test_a_new_token_is_shown_once(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("POST deployments/qwen/tokens", {"id": "t-1", "deployment": "d-1", "token": "ske_x"}, status=201)
    words = ("--name", "ci", "--model", "qwen", "--requests-per-minute", "60")
    status, out, err = sokovan("token", "create", "qwen", *words)
    assert (status, "ske_x" in out, "not shown again" in err) == (0, True, True)
    assert server.body("POST deployments/qwen/tokens") == {"name": "ci", "models": ["qwen"], "requests_per_minute": 60}


def test_tokens_are_listed_without_their_secrets(server: CannedServer, sokovan: Sokovan) -> None:
    tokens = [
        TOKEN,
        {**TOKEN, "id": "t-2", "revoked_at": NOON},
        {**TOKEN, "id": "t-3", "expires_at": "2020-01-31T18:00:00Z"},
    ]
    server.says("GET deployments/qwen/tokens", {"items": tokens})
    rows = sokovan("token", "ls", "qwen")[1].splitlines()[1:]
    assert [row.split()[:6] for row in rows] == [
        ["t-1", "ci", "active", "all", "60", "requests/min"],
        ["t-2", "ci", "revoked", "all", "60", "requests/min"],
        ["t-3", "ci", "expired", "all", "60", "requests/min"],
    ]


def test_a_token_is_revoked_after_a_confirmation(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("DELETE deployments/qwen/tokens/t-1", None, status=204)
    assert sokovan("token", "revoke", "qwen", "t-1")[0] == 2
    assert sokovan("token", "revoke", "qwen", "t-1", "--yes") == (0, "", "token t-1 revoked\n")
