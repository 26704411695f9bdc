"""Converts specs of sessions back to the requests that submit them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from sokovan.api.mapping.requests import CONVERTED, partition_body, topology_text
from sokovan.api.mapping.times import time_text
from sokovan.domain.arrays import ArrayMember
from sokovan.domain.records import KernelRun, SpecSummary
from sokovan.domain.session import KernelSpec, SessionOptions, SessionSpec
from sokovan.domain.slot_notation import format_amount
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.intake.images import mount_requirements
from sokovan.orchestrator.sessions.intake.kernel_groups import MAIN, SUB
from sokovan.orchestrator.sessions.intake.resource_calculator import EVERYWHERE
from sokovan.wire.api.bodies import Amount
from sokovan.wire.api.sessions import (
    KernelGroupBody,
    MountBody,
    RetryBody,
    ServicePortBody,
    SessionBody,
    SessionSpecView,
)

# Options that a request has under the same name, as they are, and those that it has as texts.
_SAME = tuple(
    sorted({one.name for one in fields(SessionBody)} & {one.name for one in fields(SessionOptions)} - CONVERTED)
)
_TEXTS = ("where", "tolerations", "affinity", "anti_affinity", "gates")
_CHOICES = ("ends_with", "on_agent_lost", "preemption", "on_preempt")


def session_spec_view(spec: SessionSpec, *, now_ms: int, is_owner: bool) -> SessionSpecView:
    """The request that submits a session again.

    Times that have passed are left out. Variables are shown to the owner only, and of secret
    ones only the names.
    """
    runs = SpecSummary.of(spec).runs
    hidden = [] if is_owner else sorted({name for run in runs for name in run.kernel.environment})
    passed = [name for name, at_ms in _times(spec).items() if at_ms <= now_ms]
    return SessionSpecView(
        session=spec.session_id,
        body=_session_body(spec, runs, shows_variables=is_owner, passed=passed),
        secrets=list(spec.secrets),
        hidden=hidden,
        left_out=passed,
        notes=_notes(spec, hidden, passed),
    )


def _notes(spec: SessionSpec, hidden: Sequence[str], passed: Sequence[str]) -> list[str]:
    """In which respects the request differs from the session."""
    notes = []
    if spec.secrets:
        options = " ".join(f"--secret-env {name}" for name in spec.secrets)
        notes.append(f"the values of secret variables are never shown; give them again: {options}")
    if hidden:
        notes.append(f"the values of variables are shown to the owner only; give them again: {', '.join(hidden)}")
    if passed:
        notes.append(f"left out, because the time has passed: {', '.join(passed)}")
    if spec.array is not None:
        notes.append(f"of the array {spec.array_name}, this is the session with the index {spec.array.index} alone")
    return notes


def _session_body(
    spec: SessionSpec, runs: Sequence[KernelRun], *, shows_variables: bool, passed: Sequence[str]
) -> SessionBody:
    values: dict[str, Any] = {name: getattr(spec, name) for name in _SAME}
    values |= {name: [str(one) for one in getattr(spec, name)] for name in _TEXTS}
    values |= {name: _value(getattr(spec, name)) for name in _CHOICES}
    values |= {name: time_text(at_ms) for name, at_ms in _times(spec).items() if name not in passed}
    values |= _kernels(spec, runs, shows_variables=shows_variables)
    architectures = {run.kernel.architecture for run in runs}
    return SessionBody(
        **values,
        name=spec.array_name or spec.name or None,
        type=_value(spec.session_type),
        mounts=[MountBody(source=one.source, target=one.target, read_only=one.read_only) for one in spec.mounts],
        ports=[ServicePortBody(name=one.name, port=one.port, protocol=_value(one.protocol)) for one in spec.ports],
        architecture=architectures.pop() if len(architectures) == 1 else None,
        scaling_group=spec.scaling_group,
        queue=spec.queue,
        group=spec.owner.group,
        topology=None if spec.topology is None else topology_text(spec.topology),
        depends_on=list(spec.awaited),
        time_limit=spec.time_limit_s,
        idle_timeout=spec.idle_timeout_s,
        checkpoint=spec.checkpoint_s,
        stop_grace=spec.stop_grace_s,
        retry=RetryBody(attempts=spec.retry.attempts, backoff=spec.retry.backoff_s, elsewhere=spec.retry.elsewhere),
        array=None if spec.array is None else _array_text(spec.array),
        partitions=[partition_body(one) for one in spec.partitions],
        booking=spec.booking or None,
    )


def _value(choice: Any) -> Any:
    """The text of a choice; the request has the same ones."""
    return None if choice is None else choice.value


def _array_text(member: ArrayMember) -> str:
    """An array of this session alone."""
    return str(member.index) if member.at_once is None else f"{member.index}%{member.at_once}"


def _times(spec: SessionSpec) -> dict[str, int]:
    """The times that a spec has, by their field of the request."""
    found = {"starts_at": spec.starts_at_ms, "deadline": spec.deadline_ms}
    return {name: at_ms for name, at_ms in found.items() if at_ms is not None}


def _kernels(spec: SessionSpec, runs: Sequence[KernelRun], *, shows_variables: bool) -> dict[str, Any]:
    """The fields that describe the kernels: `size` equal ones, or groups of them."""
    if not _are_equal(spec, runs):
        groups = [_group_body(spec, run, shows_variables=shows_variables) for run in runs]
        return {"minimum": spec.min_kernels, "groups": groups}
    first = runs[0].kernel
    return {
        "size": len(spec.kernels),
        "minimum": spec.min_kernels,
        "image": first.image,
        "command": list(first.command),
        "environment": dict(first.environment) if shows_variables else {},
        "resources": _resources(first.slots),
        "require": _own_requirements(spec, first),
        "nominated": first.nominated,
    }


def _are_equal(spec: SessionSpec, runs: Sequence[KernelRun]) -> bool:
    """Whether a request without groups makes these kernels."""
    sizes = [(run.kernel.group, run.count) for run in runs]
    if sizes not in ([(MAIN, 1)], [(MAIN, 1), (SUB, len(spec.kernels) - 1)]):
        return False
    first = runs[0].kernel
    alike = all(replace(run.kernel, kernel_id=first.kernel_id, group=MAIN) == first for run in runs)
    is_plain = first.priority == 0 and first.labels == spec.labels
    return alike and is_plain and spec.group_minimums == ({} if spec.min_kernels is None else {MAIN: 1})


def _group_body(spec: SessionSpec, run: KernelRun, *, shows_variables: bool) -> KernelGroupBody:
    kernel = run.kernel
    return KernelGroupBody(
        name=kernel.group,
        size=run.count,
        minimum=spec.group_minimums.get(kernel.group),
        image=kernel.image,
        command=list(kernel.command) or None,
        environment=dict(kernel.environment) if shows_variables else {},
        resources=_resources(kernel.slots),
        labels={name: value for name, value in kernel.labels.items() if spec.labels.get(name) != value},
        require=_own_requirements(spec, kernel),
        priority=kernel.priority,
        nominated=kernel.nominated,
    )


def _resources(slots: ResourceSlot) -> dict[str, Amount]:
    """The amounts of a kernel; a best-effort one names 0 of what has a default."""
    amounts = {**dict.fromkeys(sorted(EVERYWHERE), 0), **slots}
    texts = {slot: format_amount(slot, amount) for slot, amount in amounts.items()}
    return {slot: int(text) if text.isdecimal() else text for slot, text in texts.items()}


def _own_requirements(spec: SessionSpec, kernel: KernelSpec) -> dict[str, str]:
    """The labels of agents that the request names; those that its mounts need follow from them."""
    implied = mount_requirements(spec.mounts, kernel.image)
    return {name: value for name, value in kernel.require.items() if implied.get(name) != value}
