"""Sessions as lists show them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.session_summaries import CHUNK, summary_text
from sokovan.adapters.sql.schema.tables import SESSIONS
from sokovan.domain.ids import SessionId
from sokovan.domain.records import SessionSummary, SpecSummary
from sokovan.domain.session import KernelSpec
from sokovan.ports.repositories.sessions import SessionFilter, SessionOrder
from sokovan.testing.stored_cluster import BY_USER, StoredCluster, session_spec


@contextmanager
def decoded_kernels() -> Iterator[list[str]]:
    """The specs of kernels that are made meanwhile."""
    made: list[str] = []
    code = KernelSpec.__post_init__.__code__

    def look(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code is code:
            made.append("")

    sys.setprofile(look)
    try:
        yield made
    finally:
        sys.setprofile(None)


async def summaries(cluster: StoredCluster, *names: str, kernels_max: int = 0) -> list[SessionSummary]:
    """The summaries of sessions."""
    wanted = SessionFilter(ids=[SessionId(name) for name in names])
    return list(
        await cluster.store.read(
            lambda unit: unit.sessions.summaries(wanted, limit=len(names), kernels_max=kernels_max)
        )
    )


@pytest.mark.parametrize("kernels", [9, 90])
async def test_a_page_decodes_one_kernel_of_a_session_whatever_their_number(kernels: int) -> None:
    async with StoredCluster.open() as cluster:
        for name in ("s1", "s2"):
            await cluster.submit(name, kernels=kernels)
        with decoded_kernels() as made:
            found = await summaries(cluster, "s1", "s2", kernels_max=2)
        assert len(made) == 2
        assert [(one.spec.size, len(one.kernels)) for one in found] == [(kernels, 2), (kernels, 2)]


async def test_a_stored_summary_is_that_of_the_whole_spec_also_when_it_changes() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("held", kernels=9, gates=("ready", "checked"))
        await cluster.store.run(lambda unit: unit.sessions.release(SessionId("held"), ["ready"], BY_USER))
        [found] = await summaries(cluster, "held")
        assert found.spec.gates == ("checked",)
        assert found.spec == SpecSummary.of((await cluster.session("held")).spec)


async def test_sessions_without_a_stored_summary_have_that_of_their_spec() -> None:
    async with StoredCluster.open() as cluster:
        record = await cluster.submit("old", kernels=9)
        before = sa.update(SESSIONS).values(summary="")
        async with cluster.store.database.writing() as connection:
            await connection.execute(before)
            await connection.commit()
        [found] = await summaries(cluster, "old")
        assert found.spec == SpecSummary.of(record.spec)
    assert summary_text(session_spec("small", kernels=8)) == ""


async def test_a_page_longer_than_a_chunk_has_every_session_in_its_order() -> None:
    names = [f"s{n:02}" for n in range(CHUNK + 1)]
    async with StoredCluster.open() as cluster:
        for name in names:
            await cluster.submit(name)
        found = await cluster.store.read(
            lambda unit: unit.sessions.summaries(SessionFilter(), limit=99, order=SessionOrder(falls=True))
        )
        assert [one.session_id for one in found] == names[::-1]
