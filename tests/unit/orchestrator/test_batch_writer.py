"""Batch writes: few transactions, and one failure does not affect the others."""

from collections.abc import Sequence

import pytest

from sokovan.domain.errors import FencedOut
from sokovan.domain.ids import SessionId
from sokovan.orchestrator.batch_writer import BatchWriter
from sokovan.ports.storage import Fence, UnitOfWork
from sokovan.testing.orchestrated_cluster import OrchestratedCluster
from sokovan.testing.simple_work import work_spec
from sokovan.testing.stored_cluster import BY_USER


async def enqueue(unit: UnitOfWork, names: Sequence[str]) -> Sequence[str]:
    for name in names:
        await unit.sessions.enqueue(work_spec(name), BY_USER)
        if name.startswith("poison"):
            raise ValueError(name)
    return names


@pytest.mark.slow
async def test_many_items_share_transactions(cluster: OrchestratedCluster) -> None:
    writer = BatchWriter(cluster.store, batch_max=10)
    written = await writer.write([f"s{number:02}" for number in range(25)], enqueue)
    assert len(written.results) == 25
    assert writer.transactions == 3


@pytest.mark.slow
async def test_those_at_fault_are_found_and_the_rest_is_written(cluster: OrchestratedCluster) -> None:
    names = [f"s{number}" for number in range(9)]
    names[3], names[7] = "poison-a", "poison-b"
    written = await BatchWriter(cluster.store, batch_max=9).write(names, enqueue)
    assert sorted(written.results) == sorted(name for name in names if name.startswith("s"))
    assert sorted((name, str(error)) for name, error in written.failures) == [
        ("poison-a", "poison-a"),
        ("poison-b", "poison-b"),
    ]
    for name in written.results:
        assert (await cluster.session(name)).session_id == SessionId(name)


async def test_a_former_leader_writes_nothing_and_gets_an_error(cluster: OrchestratedCluster) -> None:
    writer = BatchWriter(cluster.store)
    writer.fence = Fence("sessions", 99)
    with pytest.raises(FencedOut):
        await writer.write(["s"], enqueue)
    assert writer.transactions == 1
