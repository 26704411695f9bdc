"""The copy is read whole once, and follows what is written."""

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.records import SessionRecord
from sokovan.orchestrator.sessions.session_cache import Need, SessionCache
from sokovan.orchestrator.sessions.session_cache_reader import SessionCacheReader
from sokovan.testing.orchestrated_cluster import OrchestratedCluster


def copy(cluster: OrchestratedCluster) -> tuple[SessionCache, SessionCacheReader, list[SessionRecord]]:
    heard: list[SessionRecord] = []
    live = SessionCache(lambda _before, after: heard.append(after))
    return live, SessionCacheReader(live, cluster.store), heard


async def test_everything_that_has_not_settled_is_read_at_the_beginning(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    for name in ("waiting", "running", "forced", "over"):
        await cluster.submit(name)
    for name in ("running", "forced", "over"):
        await cluster.stored.place(name, "a1")
    await cluster.stored.start("running")
    await cluster.stored.start("forced")
    await cluster.stop("forced", forced=True)
    await cluster.stop("over")
    await cluster.stored.free("over", FreeProof.NEVER_SENT)
    live, reader, _ = copy(cluster)
    await reader.load()
    assert sorted(one.session_id for one in live.all()) == ["forced", "running", "waiting"]
    assert [one.session_id for one in live.needing(Need.AN_END)] == ["forced"]


async def test_what_others_write_is_read_at_the_next_look(cluster: OrchestratedCluster) -> None:
    await cluster.agent("a1")
    live, reader, heard = copy(cluster)
    await reader.load()
    await cluster.submit("s")
    await reader.refresh()
    assert live.get(SessionId("s")) is not None
    assert live.now_ms == cluster.clock.now_ms()
    await cluster.stop("s")
    await reader.refresh()
    assert live.get(SessionId("s")) is None
    await reader.refresh()
    assert [one.status for one in heard] == [SessionStatus.PENDING, SessionStatus.CANCELLED]


async def test_what_we_wrote_ourselves_is_not_read_again(cluster: OrchestratedCluster) -> None:
    live, reader, heard = copy(cluster)
    await reader.load()
    live.put(await cluster.submit("s"))
    await reader.refresh()
    assert len(heard) == 1


async def test_what_is_in_doubt_is_read_again(cluster: OrchestratedCluster) -> None:
    agent = await cluster.agent("a1")
    await cluster.submit("s")
    await cluster.settle()
    live, reader, _ = copy(cluster)
    await reader.load()
    await agent.restart()  # the kernel goes over to the new incarnation, and its session is not written
    await reader.refresh()
    before = live.get(SessionId("s"))
    live.doubt([SessionId("s")])
    await reader.refresh()
    after = live.get(SessionId("s"))
    assert before is not None
    assert after is not None
    assert (before.kernels[0].incarnation, after.kernels[0].incarnation) == (1, 2)
    assert live.doubtful == {}
