"""The session repository, beyond the contract of its port."""

import pytest

from sokovan.adapters.sql.repositories.sessions.enqueueing import PLACES_PER_UNIT
from sokovan.adapters.sql.repositories.sessions.repository import _ended_by
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.errors import Conflict, IdempotencyConflict, InvalidSpec
from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.records import KernelMove, KernelRecord
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.repositories.sessions import RequestKey, SessionFilter
from sokovan.testing.stored_cluster import BY_COORDINATOR, BY_USER, StoredCluster, assignment, session_spec, submit_all
from tests.unit.adapters.sql.statements import recorded_statements

_T = KernelTrigger


def move(trigger: KernelTrigger, exit_code: int | None = None) -> KernelMove:
    kernel = KernelRecord(KernelId("k"), SessionId("s"), 0, KernelStatus.RUNNING, 1, ResourceSlot())
    return KernelMove(kernel, trigger, exit_code)


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ([move(_T.STARTED)], (_T.STARTED, [])),
        ([move(_T.EXITED, 0), move(_T.STARTED)], (_T.EXITED, [0])),
        ([move(_T.STARTED), move(_T.EXITED, 1), move(_T.EXITED, 0)], (_T.EXITED, [1, 0])),
        ([move(_T.EXITED, 0), move(_T.FAILED)], (_T.FAILED, [0, None])),
        ([move(_T.EXPIRED), move(_T.EXITED, 0)], (_T.EXPIRED, [None, 0])),
    ],
)
def test_what_ends_a_session_does_not_depend_on_the_order(
    moves: list[KernelMove], expected: tuple[KernelTrigger, list[int | None]]
) -> None:
    assert _ended_by(moves) == expected


async def test_many_sessions_are_stored_in_one_go_and_in_their_order() -> None:
    async with StoredCluster.open() as cluster:
        names = [f"s{number}" for number in (3, 1, 2)]
        specs = [session_spec(name, kernels=2) for name in names]
        await submit_all(cluster.store, specs)
        found = await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=9))
        assert [record.session_id for record in found] == names
        assert [record.spec for record in found] == specs
        assert [len(record.kernels) for record in found] == [2, 2, 2]


async def test_places_of_one_unit_of_work_lie_before_those_of_the_next() -> None:
    async with StoredCluster.open() as cluster:

        async def work(unit: SqlUnitOfWork) -> list[int]:
            records = [
                await unit.sessions.enqueue(session_spec(name), BY_USER)
                for name in (f"s{unit.transaction.number}.{n}" for n in range(3))
            ]
            return [record.place for record in records]

        first, second = await cluster.store.run_sql(work), await cluster.store.run_sql(work)
        assert first == [first[0], first[0] + 1, first[0] + 2]
        assert first[-1] < second[0]
        assert second[0] - first[0] == PLACES_PER_UNIT


async def test_a_key_of_a_request_that_failed_can_be_used_again() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("taken")
        with pytest.raises(Conflict) as caught:
            await cluster.submit("taken", request=RequestKey("u", "k", "one"))
        assert not isinstance(caught.value, IdempotencyConflict)
        record = await cluster.submit("free", request=RequestKey("u", "k", "other"))
        assert record.session_id == "free"


async def test_a_move_of_no_kernels_is_refused() -> None:
    async with StoredCluster.open() as cluster:
        with pytest.raises(InvalidSpec, match="names no kernel"):
            await cluster.store.run(lambda unit: unit.sessions.move_kernels([], BY_USER))


async def test_a_refused_request_leaves_its_key_free() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("taken")
        key = RequestKey("alice", "k1", "digest")

        async def work(unit: SqlUnitOfWork) -> None:
            with pytest.raises(Conflict):
                await unit.sessions.enqueue(session_spec("taken"), BY_USER, request=key)

        await cluster.store.run(work)
        assert (await cluster.submit("free", request=key)).session_id == "free"


async def statements_to_move(cluster: StoredCluster, count: int) -> int:
    """The number of statements to move this many sessions."""
    names = [f"s{count}.{number:02}" for number in range(count)]
    for name in names:
        await cluster.submit(name)
    await cluster.place_all([assignment(name, "a1") for name in names])
    wanted = SessionFilter(ids=[SessionId(name) for name in names])
    found = await cluster.store.read(lambda unit: unit.sessions.page(wanted, limit=99))
    moves = [KernelMove(kernel, _T.IMAGE_READY) for one in found for kernel in one.kernels]
    with recorded_statements(cluster) as statements:
        moved = await cluster.store.run(lambda unit: unit.sessions.move_many(moves, BY_COORDINATOR))
    assert [one.session_id for one in moved] == names
    return len(statements)


@pytest.mark.slow
async def test_moving_many_sessions_takes_as_many_statements_as_moving_two() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1", slots={"cpu": 1_000_000, "mem": 1 << 50}, devices=False)
        # The id of the unit, two to lock, two histories, two kinds of rows, two to read, and the outbox.
        assert [await statements_to_move(cluster, count) for count in (2, 40)] == [10, 10]
