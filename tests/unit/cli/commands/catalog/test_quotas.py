"""`sokovan quota`: limits, and who is under them."""

from __future__ import annotations

import pytest

from sokovan.cli.commands.catalog.quotas import policy_of
from sokovan.sdk.errors import InvalidSetting
from tests.unit.cli.canned_server import CannedServer, Sokovan


def test_limits_are_made(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT policies/students", {"name": "students"}, status=201)
    words = ("gpu=8", "cpu=64", "--sessions", "10", "--pending", "5", "--kernels", "4", "--priority", "1")
    assert sokovan("quota", "set", "students", *words)[0] == 0
    assert server.body("PUT policies/students") == {
        "name": "students",
        "slots_max": {"cuda.device": "8", "cpu": "64"},
        "sessions_max": 10,
        "pending_sessions_max": 5,
        "kernels_per_session_max": 4,
        "priority_max": 1,
    }


@pytest.mark.parametrize(("kind", "path"), [("user", "users"), ("group", "groups"), ("domain", "domains")])
def test_an_owner_gets_limits_of_his_own(server: CannedServer, sokovan: Sokovan, kind: str, path: str) -> None:
    server.says(f"PUT policies/{kind}.nlp", {"name": f"{kind}.nlp"})
    server.says(f"GET {path}/nlp", {"name": "nlp", "domain": "d"})
    server.says(f"PUT {path}/nlp", {"name": "nlp", "domain": "d"})
    status, _, err = sokovan("quota", "set", f"{kind}:nlp", "gpu=64")
    assert status == 0
    assert err.splitlines()[0] == f"{kind} nlp is under quota {kind}.nlp"
    assert server.body(f"PUT {path}/nlp")["policy"] == f"{kind}.nlp"


def test_an_owner_that_there_cannot_be_is_refused() -> None:
    assert policy_of("students") == "students"
    for name in ("team:nlp", "group:"):
        with pytest.raises(InvalidSetting, match="is no owner"):
            policy_of(name)
