"""Secret variables reach every attempt of a session, and are gone from the store with its end."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.adapters.local.secret_box import AesSecretBox, SecretKey
from sokovan.domain.ids import SessionId
from sokovan.domain.records import SessionRecord
from sokovan.domain.session import LostPolicy
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.acting_agents import ActingAgent
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import work_spec
from sokovan.testing.stored_cluster import BY_USER

pytestmark = pytest.mark.slow  # many cycles through the store per test

VALUE = "known-to-one-user-alone"


async def submit_with_secret(cluster: OrchestratedCluster, name: str, **options: Any) -> SessionRecord:
    spec = work_spec(name, secrets=("TOKEN",), **options)
    sealed = cluster.stored.secrets.seal({"TOKEN": VALUE}, owner=spec.owner.user)
    return await cluster.store.run(lambda unit: unit.sessions.enqueue(spec, BY_USER, sealed=sealed))


def tokens_on(agent: ActingAgent) -> list[str | None]:
    return [acted.launch.environment.get("TOKEN") for acted in agent.machine.values()]


async def test_every_kernel_gets_the_secret_and_the_end_removes_it(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await submit_with_secret(cluster, "s", kernels=2)
    await cluster.settle()
    assert tokens_on(agent) == [VALUE, VALUE]
    running = await cluster.session("s")
    assert running.sealed
    assert VALUE not in repr(running)
    for kernel in ("s.0", "s.1"):
        await agent.ends(kernel)
    await cluster.settle()
    ended = await cluster.session("s")
    assert (ended.status, ended.sealed, ended.spec.secrets) == ("terminated", "", ("TOKEN",))


async def test_a_session_that_is_cancelled_has_no_secret_left(cluster: OrchestratedCluster) -> None:
    await submit_with_secret(cluster, "s")
    assert (await cluster.session("s")).sealed
    await cluster.stop("s")
    assert (await cluster.session("s")).sealed == ""


async def test_a_second_attempt_gets_the_secret(cluster: OrchestratedCluster) -> None:
    bad, good = await cluster.agent("a1"), await cluster.agent("a2")
    bad.script.start_problem = "no space left on device"
    await submit_with_secret(cluster, "s")
    await cluster.settle()
    assert [one.attempt for one in (await cluster.session("s")).kernels] == [2]
    assert tokens_on(good) == [VALUE]


async def test_the_successor_of_a_session_on_a_lost_agent_gets_the_secret(cluster: OrchestratedCluster) -> None:
    first = await cluster.agent("a1")
    await submit_with_secret(cluster, "s", on_agent_lost=LostPolicy.REQUEUE)
    await cluster.settle()
    second = await cluster.agent("a2")
    first.goes_silent()
    await cluster.pass_time(125)
    assert tokens_on(second) == [VALUE]
    assert (await cluster.session("s")).sealed == ""


async def test_an_agent_that_restarts_before_the_start_is_sent_the_secret_again(
    cluster: OrchestratedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await cluster.agent("a1")
    with monkeypatch.context() as killed:  # between the record of the request and the start
        killed.setattr(agent, "_start_kernel", lambda _launch: None)
        await submit_with_secret(cluster, "s")
        await cluster.settle()
    assert (await cluster.session("s")).status == "creating"
    assert VALUE not in repr(agent._journal)  # what the agent keeps
    await agent.restart()
    await cluster.pass_time(30)
    assert (await cluster.session("s")).status == "running"
    assert tokens_on(agent) == [VALUE]


async def test_secrets_without_their_key_end_the_session_with_a_reason(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await submit_with_secret(cluster, "s")
    keys = [SecretKey.new()]
    await cluster.fail_over(secrets=AesSecretBox(lambda: keys))
    await cluster.pass_time(300, step_s=5)
    [session] = await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(ids=[SessionId("s")]), limit=1))
    assert session.status in {"terminated", "cancelled"}
    assert "secrets-unreadable" in (session.cause_detail or "")
    assert agent.machine == {}
