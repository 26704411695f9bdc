"""The audit trail of the API."""

from __future__ import annotations

import pytest

from sokovan.api.access.auditing import DENIED_PER_MINUTE, TEXT_MAX, audit_entry
from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.tenancy import Keypair, User
from sokovan.ports.repositories.credentials import Principal
from sokovan.testing.clock import VirtualClock
from tests.unit.api.api_harness import ApiHarness, api_harness, member

PRINCIPAL = AuthenticatedPrincipal(
    Principal(Keypair(AccessKey("AK-1"), "alice"), User("alice", "north")), "digest", "req-9", "10.0.0.1"
)


def test_a_line_says_who_did_what_from_where_with_which_request() -> None:
    entry = audit_entry(PRINCIPAL, "queue.put", "fast", reason="why not")
    assert (entry.who, entry.action, entry.target, entry.outcome) == ("alice", "queue.put", "fast", "done")
    assert entry.request_id == "req-9"
    assert entry.detail == {"key": "AK-1", "from": "10.0.0.1", "reason": "why not"}


def test_what_a_client_wrote_cannot_forge_a_line() -> None:
    entry = audit_entry(PRINCIPAL, "x", "a\nb\x1b" + "y" * 1000, note="\ud800")
    assert entry.target.isprintable()
    assert len(entry.target) == TEXT_MAX
    assert entry.detail["note"] == "\ufffd"


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_what_was_done_and_what_was_denied_is_written_down(api: ApiHarness) -> None:
    body = {"name": "audited"}
    assert (await api.call("PUT", "/queues/audited", json=body)).status_code == 201
    assert (await api.call("PUT", "/queues/audited", json=body, user=member("north"))).status_code == 403
    assert (await api.call("DELETE", "/sessions/nothing", user=member("north"))).status_code == 404
    assert (await api.call("DELETE", "/queues/audited")).status_code == 204
    assert (await api.get("/sessions/nothing", user=member("north"))).status_code == 404
    assert [entry for entry in await api.audited() if "session" in entry[2] or "audited" in entry[2]] == [
        ("root", "queue.put", "audited", "done"),
        (member("north"), "PUT /api/v1/queues/{name}", "/api/v1/queues/audited", "denied"),
        (member("north"), "DELETE /api/v1/sessions/{ref}", "/api/v1/sessions/nothing", "denied"),
        ("root", "queue.remove", "audited", "done"),
    ]


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_the_trail_holds_together(api: ApiHarness) -> None:
    assert await api.cluster.store.read(lambda unit: unit.audit.first_broken()) is None


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_who_is_denied_without_end_does_not_fill_the_trail() -> None:
    clock = VirtualClock()
    async with api_harness(clock=clock) as api:
        north, south = member("north"), member("south")

        async def refused(user: str, times: int) -> None:
            for _ in range(times):
                assert (await api.call("DELETE", "/queues/none", user=user)).status_code == 403

        async def denied(user: str) -> list[dict[str, str]]:
            rows = await api.cluster.store.read(lambda unit: unit.audit.page(limit=1000))
            return [dict(entry.detail) for _, _, entry in rows if (entry.who, entry.outcome) == (user, "denied")]

        await refused(north, DENIED_PER_MINUTE + 7)
        await refused(south, 1)
        assert (len(await denied(north)), len(await denied(south))) == (DENIED_PER_MINUTE, 1)
        await clock.advance(60)
        await refused(north, 2)
        assert [detail.get("unwritten") for detail in (await denied(north))[-2:]] == ["7", None]
