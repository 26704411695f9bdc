"""Texts that are stored, and the states of sessions that are locked."""

from dataclasses import replace
from types import MappingProxyType

import msgspec
import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.repositories.sessions.session_rows import (
    SessionRow,
    devices_of,
    lock_sessions,
    read_kernels,
    record_of,
    slots_of,
    slots_text,
)
from sokovan.adapters.sql.schema.spec_codec import spec_of, spec_text
from sokovan.adapters.sql.unit_of_work import SqlUnitOfWork
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.kernel import FollowUp, KernelStatus
from sokovan.domain.lifecycle.session import Goal, SessionIntent, SessionStatus, deciding_statuses, session_status
from sokovan.domain.plain_values import InvalidDocument, from_plain, to_plain
from sokovan.domain.records import KernelRecord
from sokovan.domain.session import Mount, SessionSpec, TopologyConstraint, TopologyMode
from sokovan.domain.slots import ResourceSlot
from sokovan.testing.stored_cluster import StoredCluster, session_spec
from tests.unit.adapters.sql.cluster_rows import kernel_state, session_state
from tests.unit.adapters.sql.statements import recorded_statements


def test_equal_slots_have_equal_texts() -> None:
    first, second = ResourceSlot({"mem": 2**53, "cpu": 1}), ResourceSlot({"cpu": 1, "gpu": 0, "mem": 2**53})
    assert slots_text(first) == slots_text(second)
    assert slots_of(slots_text(first)) == first
    assert slots_of("{}") == ResourceSlot()


def test_devices_are_tuples_by_slot() -> None:
    assert devices_of("{}") == {}
    assert devices_of('{"cuda.device":["gpu0","gpu1"]}') == {"cuda.device": ("gpu0", "gpu1")}


def test_a_spec_survives_its_text_and_another_text_is_refused() -> None:
    spec = session_spec("s", kernels=2)
    assert spec_of(spec_text(spec)) == spec
    for text in ('{"session_id":"s"}', spec_text(spec).replace('"s.1"', '"s 1"'), "{", spec_text(spec) + "x"):
        with pytest.raises(InvalidDocument):
            spec_of(text)


def test_a_spec_that_was_stored_before_labels_existed_has_none() -> None:
    old = msgspec.json.decode(spec_text(session_spec("s", kernels=2, name="train")))
    del old["labels"]
    assert spec_of(msgspec.json.encode(old).decode()) == session_spec("s", kernels=2, name="train")


def test_a_spec_is_stored_as_the_rest_of_the_system_writes_values() -> None:
    spec = session_spec("s", kernels=2, mounts=(Mount("/a", "/b"),), topology=TopologyConstraint(TopologyMode.HARD, 2))
    labelled = replace(spec, kernels=(replace(spec.kernels[0], labels=MappingProxyType({"a": "b"})),))
    for one in (spec, labelled):
        assert msgspec.json.decode(spec_text(one)) == to_plain(one)
        assert from_plain(SessionSpec, to_plain(one), key="session") == spec_of(spec_text(one))


def test_a_state_is_shown_as_a_record() -> None:
    state = kernel_state(
        "s.0", status=KernelStatus.RUNNING, agent_id=AgentId("a1"), incarnation=2, sent=True, exit_code=3, version=4,
        devices_text='{"cuda.device":["gpu0"]}',
    )  # fmt: skip
    assert record_of(SessionId("s"), state) == KernelRecord(
        kernel_id=state.kernel_id,
        session_id=SessionId("s"),
        index=0,
        status=KernelStatus.RUNNING,
        version=4,
        slots=ResourceSlot({"cpu": 1}),
        agent_id=AgentId("a1"),
        incarnation=2,
        devices={"cuda.device": ("gpu0",)},
        exit_code=3,
        sent=True,
        history_sequence=state.history_sequence,
    )


def test_a_status_follows_from_goal_minimum_and_kernels() -> None:
    kernels = [kernel_state(f"s.{n}", status=status) for n, status in enumerate(("running", "scheduled", "pending"))]
    for kernel in kernels:
        kernel.status = KernelStatus(kernel.status)
    assert session_state("s", *kernels, required=1).derived() is SessionStatus.RUNNING
    assert session_state("s", *kernels, required=2).derived() is SessionStatus.SCHEDULED
    assert session_state("s", *kernels, required=1, goal=Goal.STOP).derived() is SessionStatus.TERMINATING
    many = [kernel_state(f"s.{n}", status=KernelStatus.RUNNING) for n in range(20)]
    assert session_state("s", *many).derived() is SessionStatus.RUNNING


def test_what_a_kernel_requires_is_read_from_its_row() -> None:
    assert kernel_state("s.0").require == {}
    assert kernel_state("s.0", require={"zone": "a"}).require == {"zone": "a"}


async def test_sessions_are_locked_with_their_kernels_in_order() -> None:
    async with StoredCluster.open() as cluster:
        for name in ("s2", "s1"):
            await cluster.submit(name, kernels=12)
        states = await cluster.store.run_sql(lambda unit: lock_sessions(unit.transaction, ["s2", "nobody", "s1"]))
        assert list(states) == ["s1", "s2"]
        assert [kernel.index for kernel in states["s2"].kernels.values()] == list(range(12))
        assert states["s1"].row.required == 12


@pytest.mark.parametrize("wanted", [[0], [0, 3], [1, 2], [0, 1, 2, 3]])
@pytest.mark.parametrize("alone", [False, True])
async def test_kernels_that_are_not_written_are_only_counted(wanted: list[int], *, alone: bool) -> None:
    """The session has the status that it has with all of its kernels."""
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1", slots={"cpu": 1_000_000, "mem": 1 << 50})
        await cluster.submit("s", kernels=4)
        await cluster.place("s", *["a1"] * 4)
        record = await cluster.start("s")
        ending = replace(
            record.kernels[3], status=KernelStatus.TERMINATING, follow_up=FollowUp.REQUEUE if alone else None
        )
        record = replace(record, kernels=(*record.kernels[:3], ending))

        async def work(unit: SqlUnitOfWork) -> SessionRow:
            return (await lock_sessions(unit.transaction, ["s"]))["s"]

        whole, part = await cluster.store.run_sql(work), await cluster.store.run_sql(work)
        whole.take(record, [one.kernel_id for one in record.kernels])
        part.take(record, [record.kernels[index].kernel_id for index in wanted])
        assert not whole.others
        assert len(part.kernels) + part.others.total() == 4
        assert set(part.statuses()) == set(whole.statuses())
        each = [(one.status, one.follow_up is not None) for one in record.kernels]
        expected = session_status(SessionIntent(Goal.RUN, 4), deciding_statuses(each))
        assert part.derived() is whole.derived() is expected
        assert (expected is SessionStatus.TERMINATING) is not alone


async def test_the_kernels_of_a_session_that_was_never_written_are_not_read() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1", slots={"cpu": 1_000_000, "mem": 1 << 50})
        new = await cluster.submit("s", kernels=60, slots={"cpu": 1})
        await cluster.submit("other")
        await cluster.place("other", "a1")
        with recorded_statements(cluster) as statements:
            assert await cluster.session("s") == new
        assert [one for one in statements if "FROM kernels" in one] == []
        with recorded_statements(cluster) as statements:
            await cluster.session("other")
        assert len([one for one in statements if "FROM kernels" in one]) == 1
        rows = await cluster.store.run_sql(
            lambda unit: read_kernels(unit.transaction, sa.text("kernels.session_id = 's'"))
        )
        assert sorted(rows, key=lambda one: one.index) == list(new.kernels)
