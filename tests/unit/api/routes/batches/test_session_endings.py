"""The end of many sessions over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sokovan.wire.api.batches import LINES_MEDIA
from tests.unit.api.api_harness import ApiHarness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH = member("north")
BODY: dict[str, Any] = {"command": ["true"], "resources": {"cpu": 1, "mem": "1Gi"}}


async def submitted(api: ApiHarness, *names: str) -> list[str]:
    """The ids of new sessions with these names."""
    answers = [await api.call("POST", "/sessions", json={**BODY, "name": name}, user=NORTH) for name in names]
    assert {answer.status_code for answer in answers} == {201}
    return [str(answer.json()["id"]) for answer in answers]


async def stop(api: ApiHarness, *refs: str | bytes, user: str = NORTH, query: str = "") -> dict[str, Any]:
    """The outcomes of a request to end these sessions."""
    lines = [ref if isinstance(ref, bytes) else json.dumps({"session": ref}).encode() for ref in refs]
    headers = {"content-type": LINES_MEDIA}
    path = f"/sessions:stop{query}"
    answer = await api.call("POST", path, content=b"\n".join(lines), user=user, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def codes_of(outcome: dict[str, Any]) -> list[str]:
    """The status or the code of each line."""
    return [item["status"] or item["problem"]["code"] for item in outcome["items"]]


async def test_each_session_is_ended_for_itself_by_id_name_or_prefix(api: ApiHarness) -> None:
    ids = await submitted(api, "stop-a", "stop-b", "stop-c")
    await submitted(api, "stay")
    unclear = (b'{"session": 1}', b'{"session": "stay", "force": true}')
    outcome = await stop(api, ids[0], "stop-b", b"{", "gone", "stop-c", ids[0], "x" * 300, *unclear)
    invalid = "invalid-request"
    gone = "not-found"
    ended = "cancelled"
    assert codes_of(outcome) == [ended, ended, invalid, gone, ended, ended, gone, invalid, invalid]
    assert [item["name"] for item in outcome["items"][:2]] == ["stop-a", "stop-b"]
    assert (outcome["accepted"], outcome["refused"]) == (4, 5)
    assert (await api.get("/sessions/stay", user=NORTH)).json()["status"] == "pending"
    again = await stop(api, *ids)
    assert codes_of(again) == ["cancelled"] * 3, "one that has ended is no failure"


async def test_a_session_of_another_is_not_found_and_not_ended(api: ApiHarness) -> None:
    [hidden] = await submitted(api, "private")
    before = len((await api.get("/audit-log?limit=500")).json()["items"])
    outcome = await stop(api, hidden, "private", user=member("south"))
    assert codes_of(outcome) == ["not-found", "not-found"]
    assert (await api.get(f"/sessions/{hidden}", user=NORTH)).json()["status"] == "pending"
    entries = (await api.get("/audit-log?limit=500")).json()["items"]
    assert len(entries) == before + 1, "one entry for a request, whatever it names"
    assert codes_of(await stop(api, hidden, user=domain_admin("north"))) == ["cancelled"]


async def test_the_reason_and_the_force_of_a_stop_are_kept(api: ApiHarness) -> None:
    [forced] = await submitted(api, "forced")
    await stop(api, "forced", query="?forced=true&reason=over%20budget")
    lines = (await api.get(f"/sessions/{forced}/history", user=NORTH)).json()["lines"]
    assert ("forced-by-user", "over budget") in [(line["code"], line["detail"]) for line in lines]
    entries = [one for one in (await api.get("/audit-log?limit=500")).json()["items"] if one["target"] == forced]
    assert "session.terminate" in {one["action"] for one in entries}


async def test_the_name_of_an_array_is_refused_in_a_list_of_sessions(api: ApiHarness) -> None:
    answer = await api.call("POST", "/sessions", json={**BODY, "name": "rows", "array": "0-2"}, user=NORTH)
    assert answer.status_code == 201, answer.text
    assert codes_of(await stop(api, "rows", "rows[1]")) == ["array-named", "cancelled"]
