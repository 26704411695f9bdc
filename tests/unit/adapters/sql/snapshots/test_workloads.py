"""Conversion of rows to workloads."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec

from sokovan.adapters.sql.repositories.sessions.session_rows import ports_text
from sokovan.adapters.sql.snapshots.workloads import session_workload
from sokovan.domain.ids import AccessKey, AgentId, DeploymentId, KernelId, QueueName, SessionId
from sokovan.domain.lifecycle.replica import ReplicaPlace
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.plain_values import to_plain
from sokovan.domain.session import (
    KernelSpec,
    Partition,
    Preemption,
    ServicePort,
    SessionSpec,
    SessionType,
    TopologyConstraint,
    TopologyMode,
)
from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.snapshot import workload_of

KERNELS = tuple(
    KernelSpec(
        KernelId(f"s.{index}"),
        ResourceSlot({"cpu": 1000 + index}),
        group=group,
        image="python:3.11",
        architecture="aarch64",
        labels={"rank": group},
        require={"zone": "a"},
        priority=3,
        preemptible=False,
        nominated=AgentId("a9"),
    )
    for index, group in enumerate(("main", "worker", "worker"))
)
RICH = SessionSpec(
    SessionId("s"),
    KERNELS,
    session_type=SessionType.BATCH,
    owner=Owner("u", "g", "d", AccessKey("k")),
    queue=QueueName("q"),
    priority=7,
    min_kernels=2,
    group_minimums={"worker": 1},
    partitions=(Partition("p", by="rank", min_groups=2, topology=TopologyConstraint(TopologyMode.SOFT, 2)),),
    topology=TopologyConstraint(TopologyMode.HARD, highest_tier="rack"),
    dependencies=(SessionId("before"),),
    starts_at_ms=5,
    time_limit_s=60,
    booking="demo",
    deadline_ms=90_000,
    borrow=True,
    migratable=True,
    checkpoint_s=600,
    stop_grace_s=7,
    preemptible=False,
    preemption=Preemption.NEVER,
    ports=(ServicePort("web", 8080), ServicePort("api")),
)


def rows_of(spec: SessionSpec, *statuses: str) -> tuple[Any, list[Any]]:
    body = msgspec.json.encode(to_plain(spec)).decode()
    owner = spec.owner
    row = SimpleNamespace(
        session_id=spec.session_id,
        place=42,
        status="pending",
        body=body,
        hypernode=None,
        failed_starts="[]",
        since_ms=5,
        evictions="[]",
        checkpoint_ms=None,
        loan=None,
        array_id=None if spec.array is None else spec.array.array_id,
        user=owner.user,
        group=owner.group,
        domain=owner.domain,
        access_key=owner.access_key,
    )
    kernels = [
        SimpleNamespace(
            kernel_id=kernel.kernel_id,
            status=status,
            agent_id=None if status in {"pending", "cancelled"} else "a1",
            slots=msgspec.json.encode(dict(kernel.slots)).decode(),
            rank=None,
            ports=ports_text({one.name: one.port for one in spec.ports} if kernel is spec.kernels[0] else {}),
        )
        for kernel, status in zip(spec.kernels, statuses or ["pending"] * len(spec.kernels), strict=True)
    ]
    return row, kernels


def test_a_waiting_session_is_what_was_submitted() -> None:
    assert session_workload(*rows_of(RICH)) == workload_of(RICH, submitted=42)


def test_a_plain_session_is_what_was_submitted_too() -> None:
    spec = SessionSpec(SessionId("s"), (KernelSpec(KernelId("s.0"), ResourceSlot()),))
    assert session_workload(*rows_of(spec)) == workload_of(spec, submitted=42)


def test_kernels_say_where_they_are_and_whether_they_leave() -> None:
    session = session_workload(*rows_of(RICH, "running", "terminating", "pending"))
    assert [(kernel.agent, kernel.releasing) for kernel in session.kernels] == [
        ("a1", False),
        ("a1", True),
        (None, False),
    ]


def test_kernels_that_are_over_are_left_out() -> None:
    session = session_workload(*rows_of(RICH, "terminated", "cancelled", "scheduled"))
    assert [kernel.kernel_id for kernel in session.kernels] == ["s.2"]


def test_equal_owners_are_one_object() -> None:
    first, second = session_workload(*rows_of(RICH)), session_workload(*rows_of(RICH))
    assert first.owner is second.owner


def test_kernels_that_are_as_they_were_are_taken_from_before() -> None:
    states = ("pending", "scheduled", "running", "terminating", "terminated")
    for first in states:
        for second in states:
            before = session_workload(*rows_of(RICH, first, first, "running"))
            row, kernels = rows_of(RICH, second, first, "running")
            after = session_workload(row, kernels, before)
            assert after == session_workload(row, kernels)
            known = {kernel.kernel_id: kernel for kernel in before.kernels}
            same = [kernel for kernel in after.kernels if kernel is known.get(kernel.kernel_id)]
            assert KERNELS[2].kernel_id in {kernel.kernel_id for kernel in same}


def test_kernels_of_a_replica_serve_requests() -> None:
    place = ReplicaPlace(DeploymentId("d"), revision=1, ordinal=0, attempt=1)
    replica = replace(RICH, session_type=SessionType.INFERENCE, starts_at_ms=None, replica=place)
    for spec, serves in ((RICH, False), (replica, True)):
        loaded = session_workload(*rows_of(spec))
        assert {kernel.serves for kernel in loaded.kernels} == {serves}
        assert {kernel.serves for kernel in workload_of(spec, submitted=1).kernels} == {serves}
