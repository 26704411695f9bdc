"""Converts rows to workloads of the scheduling core; equal parts are shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from sokovan.adapters.sql.repositories.sessions.session_rows import NO_PORTS, failed_starts_of, ports_of, slots_of
from sokovan.adapters.sql.schema.eviction_codec import evictions_of
from sokovan.domain.constraints.affinity import AffinityTerm
from sokovan.domain.constraints.label_expression import LabelExpression
from sokovan.domain.constraints.placement import PlacementConstraints
from sokovan.domain.constraints.taint import Toleration
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, SessionId
from sokovan.domain.lifecycle.eviction import recent
from sokovan.domain.lifecycle.kernel import ALIVE, HOLDS_SLOTS, KernelStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.plain_values import from_plain
from sokovan.domain.session import EndPolicy, Partition, Preemption, SessionType, TopologyConstraint
from sokovan.domain.slots import needs_master_port
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, milliseconds

# The status of a kernel that ends and holds its slots until a proof.
RELEASING = KernelStatus.TERMINATING.value
_NO_LABELS: Mapping[str, str] = {}
# Ended or withdrawn kernels, which the core ignores.
_ENDED = frozenset({KernelStatus.TERMINATED.value, KernelStatus.CANCELLED.value})
# Pending kernels of a TERMINATING session are not placed either.
_ENDED_OR_PENDING = _ENDED | {KernelStatus.PENDING.value}
_CONSTRAINTS: Mapping[str, Any] = {
    "where": tuple[LabelExpression, ...],
    "tolerations": tuple[Toleration, ...],
    "affinity": tuple[AffinityTerm, ...],
    "anti_affinity": tuple[AffinityTerm, ...],
}
_STARTING = frozenset(status.value for status in ALIVE if status is not KernelStatus.RUNNING)
_HOLDING = frozenset(status.value for status in HOLDS_SLOTS)


def session_workload(row: Any, kernels: Sequence[Any] | None, before: SessionWorkload | None = None) -> SessionWorkload:
    """The workload of one session, from the rows that `changed_sessions` reads.

    Kernels that are as they were `before` are taken from there; without `kernels`, all of them.
    """
    spec = msgspec.json.decode(row.body) if len(row.body) <= _SMALL_TEXT else _large_spec(row.body)
    failed = failed_starts_of(row.failed_starts)
    elsewhere = spec.get("retry", {}).get("elsewhere", True)
    avoid = tuple((one.agent_id, one.avoid_until_ms) for one in failed) if elsewhere else ()
    # Without another agent to go to at once, the next attempt is later.
    later = () if elsewhere else tuple(one.avoid_until_ms for one in failed)
    known = () if before is None else before.kernels
    return SessionWorkload(
        session_id=SessionId(row.session_id),
        kernels=known if kernels is None else _kernel_workloads(row, kernels, spec, avoid, before=known),
        submitted=row.place,
        session_type=SessionType(spec["session_type"]),
        owner=_owner(row.user, row.group, row.domain, row.access_key),
        queue=QueueName(spec["queue"]),
        priority=spec["priority"],
        min_kernels=spec["min_kernels"],
        group_minimums=spec["group_minimums"],
        partitions=from_plain(tuple[Partition, ...], spec["partitions"], key="partitions")
        if spec["partitions"]
        else (),
        topology=_topology(spec["topology"]),
        hypernode=row.hypernode,
        # Specs from before arrays have none of these keys.
        dependencies=tuple(SessionId(one) for one in (*spec["dependencies"], *spec.get("array_dependencies", ()))),
        array=row.array_id or "",
        array_limit=None if row.array_id is None else spec["array"]["at_once"],
        starts_at_ms=max((*later, spec["starts_at_ms"] or 0)) or None,
        preemptible=spec["preemptible"],
        preemption=Preemption(spec["preemption"]),
        gates=tuple(spec.get("gates", ())),
        running_since_ms=row.since_ms if row.status == SessionStatus.RUNNING.value else None,
        checkpoint_ms=row.checkpoint_ms,
        time_limit_ms=milliseconds(spec.get("time_limit_s")),
        grace_ms=spec.get("stop_grace_s", 0) * 1000,
        booking=spec.get("booking", ""),
        deadline_ms=spec.get("deadline_ms"),
        borrow=spec.get("borrow", False),
        # One that waits again runs on nothing; its next placement decides anew.
        loan=QueueName(row.loan) if row.loan and row.status != SessionStatus.PENDING.value else None,
        starting=row.status in _STARTING,
        migratable=spec.get("migratable", False),
        saves_every_ms=milliseconds(spec.get("checkpoint_s")),
        **_eviction_times(row.evictions),
    )


def _kernel_workloads(
    row: Any,
    kernels: Sequence[Any],
    spec: Mapping[str, Any],
    avoid: tuple[tuple[AgentId, int], ...],
    *,
    before: Sequence[KernelWorkload],
) -> tuple[KernelWorkload, ...]:
    specs = {kernel["kernel_id"]: kernel for kernel in spec["kernels"]}
    known = {kernel.kernel_id: kernel for kernel in before}
    constraints = _constraints(row, spec)
    # The first kernels that are placed lease the port where all meet.
    placed = any(kernel.status in _HOLDING for kernel in kernels)
    meets = not placed and needs_master_port([slots_of(kernel.slots) for kernel in kernels])
    leading = _leading(kernels, ends_with_main=spec.get("ends_with") == EndPolicy.MAIN.value)
    shared = _Shared(avoid, constraints, leading, meets=meets, serves=spec.get("replica") is not None)
    hidden = _ENDED_OR_PENDING if row.status == SessionStatus.TERMINATING.value else _ENDED
    return tuple(
        same
        if (same := known.get(kernel.kernel_id)) is not None and _is_same(same, kernel, avoid, meets=meets)
        else _kernel_workload(kernel, specs[kernel.kernel_id], shared)
        for kernel in kernels
        if kernel.status not in hidden
    )


def _eviction_times(text: str) -> dict[str, Any]:
    """The times of evictions that delay the next start, and of the last move."""
    receipts = evictions_of(text)
    moved = [one.at_ms for one in receipts if one.is_move]
    return {"evictions_ms": tuple(one.at_ms for one in recent(receipts)), "moved_ms": max(moved, default=None)}


def _is_same(known: KernelWorkload, row: Any, avoid: tuple[tuple[AgentId, int], ...], *, meets: bool) -> bool:
    """Whether a kernel's workload follows from its row still; the rest of it never changes."""
    if known.meets is not meets or known.releasing is not (row.status == RELEASING):
        return False
    return known.agent == row.agent_id if row.status in _HOLDING else known.agent is None and known.avoid == avoid


# Specs of large sessions take much memory; few of them change at a time.
_SMALL_TEXT = 65_536
_large_spec = lru_cache(maxsize=4)(msgspec.json.decode)


def _constraints(row: Any, spec: Mapping[str, Any]) -> PlacementConstraints | None:
    """The constraints of a session; None for most sessions, which have neither constraints nor labels."""
    if not any(spec.get(name) for name in ("labels", *_CONSTRAINTS)):
        return None
    found = {name: from_plain(target, spec[name], key=name) for name, target in _CONSTRAINTS.items() if spec.get(name)}
    labels = tuple(sorted(spec.get("labels", {}).items()))
    return PlacementConstraints(project=(row.domain, row.group), labels=labels, **found)


def _leading(kernels: Sequence[Any], *, ends_with_main: bool) -> frozenset[str]:
    """The kernels without which others cannot go on: they meet at rank 0, or end with the first."""
    if len(kernels) < 2:  # a single kernel leads no others
        return frozenset()
    found = {kernel.kernel_id for kernel in kernels if kernel.rank == 0}
    return frozenset(found | {kernels[0].kernel_id} if ends_with_main else found)


class _Shared(NamedTuple):
    """The part of a workload that the kernels of a session share."""

    avoid: tuple[tuple[AgentId, int], ...]
    constraints: PlacementConstraints | None
    leading: frozenset[str]
    meets: bool
    serves: bool


def _kernel_workload(row: Any, spec: Mapping[str, Any], shared: _Shared) -> KernelWorkload:
    holds = row.status in _HOLDING
    return KernelWorkload(
        kernel_id=KernelId(row.kernel_id),
        slots=slots_of(row.slots),
        group=spec["group"],
        image=spec["image"],
        architecture=spec["architecture"],
        labels=spec["labels"] or _NO_LABELS,
        require=spec["require"] or _NO_LABELS,
        priority=spec["priority"],
        preemptible=spec["preemptible"],
        nominated=spec["nominated"],
        agent=AgentId(row.agent_id) if holds else None,
        releasing=row.status == RELEASING,
        avoid=() if holds else shared.avoid,
        constraints=shared.constraints,
        ports=() if holds or row.ports == NO_PORTS else tuple(sorted(ports_of(row.ports).values())),
        meets=shared.meets,
        leads=holds and row.kernel_id in shared.leading,
        serves=shared.serves,
    )


@lru_cache(maxsize=100_000)
def _owner(user: str, group: str, domain: str, access_key: str) -> Owner:
    return Owner(user=user, group=group, domain=domain, access_key=AccessKey(access_key))


def _topology(value: Mapping[str, Any] | None) -> TopologyConstraint | None:
    return None if value is None else from_plain(TopologyConstraint, value, key="topology")
