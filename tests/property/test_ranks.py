"""Ranks of a session's kernels, through placements, retries and kernels that are given up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import ALIVE, KERNEL, FollowUp, FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.records import Change, KernelMove, SessionRecord
from sokovan.ports.allocation import Assignment
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, StoredCluster
from tests.quick import at_most

KERNELS = 4
CPU = {"cpu": 100}
TO_RUNNING = (
    (KernelTrigger.IMAGE_READY, BY_COORDINATOR),
    (KernelTrigger.CREATION_REQUESTED, BY_COORDINATOR),
    (KernelTrigger.STARTED, BY_AGENT),
)


async def placed(cluster: StoredCluster, chosen: Sequence[int]) -> None:
    """Place these of the waiting kernels, and start them."""
    waiting = [one for one in (await cluster.session("s")).kernels if one.status is KernelStatus.PENDING]
    pairs = [(one.kernel_id, AgentId("a1")) for one in waiting if one.index in chosen]
    if pairs:
        result = await cluster.place_all([Assignment(SessionId("s"), tuple(pairs))])
        assert not result.refused
    for trigger, change in TO_RUNNING:
        session = await cluster.session("s")
        moves = [KernelMove(one, trigger) for one in session.kernels if trigger in KERNEL.legal_in(one.status)]
        if moves:
            await cluster.store.run(partial(moved, moves=moves, change=change))


async def moved(unit: UnitOfWork, *, moves: Sequence[KernelMove], change: Change) -> None:
    await unit.sessions.move_kernels(moves, change)


async def ended(cluster: StoredCluster, kernels: Sequence[KernelId], follow_up: FollowUp | None) -> None:
    """End kernels, all of them to be retried or some alone, and free them."""
    session = await cluster.session("s")
    moves = [
        KernelMove(one, KernelTrigger.RETRY_REQUESTED, follow_up=follow_up)
        for one in session.kernels
        if one.kernel_id in kernels
    ]
    after = await cluster.store.run(lambda unit: unit.sessions.move_kernels(moves, BY_COORDINATOR))
    gone = [one for one in after.kernels if one.kernel_id in kernels]
    await cluster.store.run(lambda unit: unit.ledger.free(gone, FreeProof.AGENT_TOMBSTONE, BY_COORDINATOR))


def check(session: SessionRecord) -> None:
    ranks = [one.rank for one in session.kernels if one.rank is not None]
    alive = [one.rank for one in session.kernels if one.status in ALIVE]
    assert len(set(ranks)) == len(ranks)
    assert not alive or 0 in alive
    if all(one.status is not KernelStatus.CANCELLED for one in session.kernels):
        assert sorted(ranks) == list(range(len(ranks)))


async def run(steps: Sequence[tuple[str, int]]) -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s", kernels=KERNELS, min_kernels=1, slots=CPU)
        for step, number in steps:
            session = await cluster.session("s")
            alive = [one for one in session.kernels if one.status in ALIVE]
            chosen = [index for index in range(KERNELS) if number >> index & 1]
            late = [one.kernel_id for one in alive if one.rank != 0 and one.index in chosen]
            match step:
                case "place":
                    await placed(cluster, chosen)
                case "retry" if alive:
                    await ended(cluster, [one.kernel_id for one in alive], None)
                case "alone" if late:
                    await ended(cluster, late, FollowUp.REQUEUE)
                case "give up" if late:
                    await ended(cluster, late, FollowUp.CANCEL)
                case _:
                    continue
            check(await cluster.session("s"))


@pytest.mark.slow
@at_most(25)
@given(
    st.lists(
        st.tuples(st.sampled_from(("place", "retry", "alone", "give up")), st.integers(1, 2**KERNELS - 1)), max_size=8
    )
)
def test_ranks_are_unique_and_dense_and_there_is_a_first(steps: list[tuple[str, int]]) -> None:
    asyncio.run(run([("place", 7), *steps]))


def test_a_session_that_is_retried_with_fewer_kernels_is_ranked_anew() -> None:
    asyncio.run(run([("place", 7), ("retry", 1), ("place", 5), ("place", 2)]))
