"""The audit log over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.api.routes import audit_log
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.testing.contracts.repositories.audit import tampered
from tests.unit.api.api_harness import ADMIN, ApiHarness, api_harness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH = member("north")


async def noted(api: ApiHarness, *entries: AuditEntry) -> None:
    await api.cluster.store.run(lambda unit: unit.audit.append(*entries))


async def targets(api: ApiHarness, query: str) -> tuple[list[str], str | None]:
    answer: dict[str, Any] = (await api.get(f"/audit-log?{query}", user=ADMIN)).json()
    return [item["target"] for item in answer["items"]], answer["next"]


async def test_a_stop_is_listed_first_with_its_author(api: ApiHarness) -> None:
    await api.submit("doomed", NORTH)
    await api.call("POST", "/sessions/doomed/cancel", user=NORTH)
    [entry] = (await api.get("/audit-log?target=doomed&limit=1", user=ADMIN)).json()["items"]
    assert (entry["who"], entry["action"], entry["outcome"]) == (NORTH, "session.cancel", "done")


@pytest.mark.parametrize("user", [NORTH, domain_admin("north")])
async def test_only_administrators_see_it(api: ApiHarness, user: str) -> None:
    assert (await api.get("/audit-log", user=user)).status_code in {403, 404}


async def test_a_filter_is_exact_and_an_action_is_a_whole_word(api: ApiHarness) -> None:
    await noted(api, *(AuditEntry("eva", action, f"t-{action}", "done") for action in ("key.add", "keys.add", "key")))
    assert (await targets(api, "who=eva&action=key"))[0] == ["t-key", "t-key.add"]
    assert (await targets(api, "who=eva&target=t-keys.add"))[0] == ["t-keys.add"]
    assert (await targets(api, "who=ev"))[0] == []
    assert (await api.get("/audit-log?whom=eva", user=ADMIN)).status_code == 422


async def test_a_filter_looks_at_a_bounded_number_of_entries_at_a_time(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "LOOKED_AT_MAX", 4)
    monkeypatch.setattr(audit_log, "READ_AT_ONCE", 2)
    await noted(api, AuditEntry("ida", "a", "old", "done"), *(AuditEntry("x", "a", "t", "done") for _ in range(5)))
    found, cursor = await targets(api, "who=ida")
    assert (found, cursor is None) == ([], False)
    assert (await targets(api, f"who=ida&cursor={cursor}"))[0] == ["old"]


async def test_pages_follow_each_other_without_gaps(api: ApiHarness) -> None:
    await noted(api, *(AuditEntry("pat", "a", str(number), "done") for number in range(5)))
    found, cursor = await targets(api, "who=pat&limit=2")
    assert found == ["4", "3"]
    assert (await targets(api, f"who=pat&limit=3&cursor={cursor}"))[0] == ["2", "1", "0"]


async def test_the_chain_is_checked_for_administrators(api: ApiHarness) -> None:
    await noted(api, AuditEntry("eva", "key.add", "k", "done"))
    found = (await api.get("/audit-log/chain", user=ADMIN)).json()
    assert (found["intact"], found["first_broken"]) == (True, None)
    for user in (NORTH, domain_admin("north")):
        assert (await api.get("/audit-log/chain", user=user)).status_code in {403, 404}


async def test_a_changed_entry_is_found() -> None:
    async with api_harness() as own:
        await noted(own, *(AuditEntry("eva", "key.add", f"k{number}", "done") for number in range(3)))
        [last, *_] = (await own.get("/audit-log?limit=1", user=ADMIN)).json()["items"]
        changed = last["number"] - 1
        await tampered(own.cluster, f"UPDATE audit_log SET at_ms = at_ms + 1 WHERE sequence = {changed}")  # noqa: S608  # only a number
        found = (await own.get("/audit-log/chain", user=ADMIN)).json()
        assert (found["intact"], found["first_broken"]) == (False, changed)
