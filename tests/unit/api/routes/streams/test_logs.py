"""The output of kernels over HTTP."""

from __future__ import annotations

import base64
import json

import pytest

from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.testing.stored_cluster import BY_AGENT
from tests.unit.api.api_harness import ApiHarness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")


@pytest.mark.slow
async def test_a_piece_is_given_with_its_place(api: ApiHarness) -> None:
    await api.run("piece", NORTH)
    api.agents.says("piece.0", b"hello world")
    answer = await api.get("/sessions/piece/kernels/0/log?offset=6&limit=3", user=NORTH)
    assert answer.json() == {
        "kernel": 0,
        "offset": 6,
        "next_offset": 9,
        "data": base64.b64encode(b"wor").decode(),
        "end": False,
    }


@pytest.mark.slow
async def test_the_last_lines_are_given_on_request(api: ApiHarness) -> None:
    await api.run("lines", NORTH)
    api.agents.says("lines.0", b"1\n2\n3\n", ends=True)
    answer = await api.get("/sessions/lines/kernels/0/log?tail=1", user=NORTH)
    assert base64.b64decode(answer.json()["data"]) == b"3\n"
    assert answer.json()["end"]


async def test_a_kernel_that_has_not_started_gives_an_empty_piece(api: ApiHarness) -> None:
    await api.submit("unstarted", NORTH)
    answer = (await api.get("/sessions/unstarted/kernels/0/log", user=NORTH)).json()
    assert (answer["data"], answer["end"]) == ("", False)


async def test_a_log_that_is_no_longer_kept_is_gone(api: ApiHarness) -> None:
    await api.run("forgotten", NORTH)
    await api.cluster.move("forgotten", KernelTrigger.EXITED, BY_AGENT, exit_code=0)
    await api.cluster.free("forgotten", FreeProof.AGENT_TOMBSTONE)
    del api.agents.logs[KernelId("forgotten.0")]
    for path in ("/sessions/forgotten/kernels/0/log", "/sessions/forgotten/log", "/sessions/forgotten/log?tail=1"):
        answer = await api.get(path, user=NORTH)
        assert (answer.status_code, answer.json()["code"]) == (410, "log-gone")


async def test_a_machine_that_is_away_is_worth_another_try(api: ApiHarness) -> None:
    await api.run("unreachable", NORTH)
    api.agents.away.add(AgentId("a1"))
    answer = await api.get("/sessions/unreachable/kernels/0/log", user=NORTH)
    api.agents.away.clear()
    assert (answer.status_code, answer.json()["code"]) == (503, "agent-unreachable")


async def test_no_user_reads_logs_of_others(api: ApiHarness) -> None:
    await api.run("private", NORTH)
    for path in ("/sessions/private/kernels/0/log", "/sessions/private/log?follow=true"):
        assert (await api.get(path, user=SOUTH)).status_code == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("kernels/7/log", 404),
        ("kernels/x/log", 422),
        ("kernels/-1/log", 422),
        ("kernels/0/log?offset=-1", 422),
        ("kernels/0/log?limit=0", 422),
        ("kernels/0/log?limit=99999999", 422),
        ("log?kernel=9", 404),
        ("log?kernel=0,9", 404),
        ("log?kernel=0,x", 422),
        ("log?kernel=-1", 422),
        (f"log?kernel={','.join(['0'] * 257)}", 422),
        ("log?tail=-1", 422),
        ("log?follow=perhaps", 422),
        ("log?since=10m", 422),
    ],
)
async def test_a_wrong_question_is_refused(api: ApiHarness, path: str, status: int) -> None:
    name = api.cluster.new("q")
    await api.submit(name, NORTH)
    answer = await api.get(f"/sessions/{name}/{path}", user=NORTH)
    assert answer.status_code == status
    assert answer.json()["hint"]


async def test_a_broken_place_to_go_on_is_refused(api: ApiHarness) -> None:
    await api.run("resumed", NORTH)
    answer = await api.get("/sessions/resumed/log", user=NORTH, headers={"last-event-id": "nonsense"})
    assert answer.status_code == 422


async def test_of_a_large_gang_one_kernel_is_followed_at_a_time(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sokovan.api.routes.streams.logs.FOLLOWED_MAX", 1)
    await api.submit("gang", NORTH, kernels=2)
    answer = await api.get("/sessions/gang/log", user=NORTH)
    assert answer.status_code == 409
    assert "kernel=" in answer.json()["hint"]


@pytest.mark.slow
async def test_some_kernels_of_a_gang_are_read_together_and_one_that_is_gone_hides_none(api: ApiHarness) -> None:
    await api.run("together", NORTH, kernels=3)
    for index in range(3):
        api.agents.says(f"together.{index}", f"first\nof {index}\n".encode(), ends=True)
    answer = await api.get("/sessions/together/log?kernel=2,0&tail=1", user=NORTH)
    found = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert {one["kernel"]: base64.b64decode(one["data"]) for one in found} == {0: b"of 0\n", 2: b"of 2\n"}
    await api.cluster.move("together", KernelTrigger.EXITED, BY_AGENT, exit_code=0)
    await api.cluster.free("together", FreeProof.AGENT_TOMBSTONE)
    del api.agents.logs[KernelId("together.1")]
    answer = await api.get("/sessions/together/log?tail=1", user=NORTH)
    assert answer.status_code == 200
    assert base64.b64encode(b"of 2\n").decode() in answer.text
