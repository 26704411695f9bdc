"""Converts agents, scaling groups, queues and images from and to wire types."""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.api.mapping.explanations import device_figures
from sokovan.api.mapping.times import read_time, time_text, time_text_or_none
from sokovan.domain.cluster.agent import port_range, port_range_text, shown_labels
from sokovan.domain.cluster.agent_health import AgentFailure
from sokovan.domain.cluster.booking import Booking, BookingKind
from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue, QueueState
from sokovan.domain.cluster.scaling_group import SLOT_PRIORITY_DEFAULT, ScalingGroup, read_session_types
from sokovan.domain.constraints.taint import taints_of
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import QueueName, ScalingGroupName
from sokovan.domain.owners.tenancy import Role
from sokovan.domain.records import AgentRecord
from sokovan.domain.slot_notation import format_amount, parse_amount, read_slots
from sokovan.domain.slots import SlotLimits, checked_slot_name
from sokovan.orchestrator.agent_registry import IDENTITY_LABEL, PROCESS_LABEL
from sokovan.ports.agent_states import AgentState
from sokovan.wire.api.bodies import Amount
from sokovan.wire.api.fleet import (
    AgentFailureView,
    AgentView,
    BookingBody,
    ImageBody,
    QueueBody,
    ScalingGroupBody,
)


def agent_view(
    record: AgentRecord, state: AgentState | None, *, connected: bool, seen_as: Role = Role.USER, measured: bool = False
) -> AgentView:
    """The view of an agent: its record and its last heartbeat.

    With `measured` it has what its devices do. The identity label, and whose starts failed,
    are shown to administrators only. The label of the process is left out.
    """
    info = record.info
    hidden = (PROCESS_LABEL,) if seen_as is Role.ADMIN else (PROCESS_LABEL, IDENTITY_LABEL)
    return AgentView(
        id=info.agent_id,
        status=info.status.value,
        incarnation=info.incarnation,
        scaling_group=info.scaling_group,
        architecture=info.architecture,
        labels=shown_labels({name: value for name, value in info.labels.items() if name not in hidden}),
        slots=dict(info.available_slots),
        used=dict(info.occupied_slots),
        kernels=info.kernel_count,
        kernels_max=info.kernels_max,
        kernel_ports=port_range_text(port_range(info.labels)),
        connected=connected,
        heartbeat_at=time_text_or_none(state.heard_ms or None) if state is not None else None,
        load=dict(state.load) if state is not None else {},
        version=record.version,
        operator_labels=shown_labels(record.operator_labels),
        taints=[str(taint) for taint in taints_of(info.labels)],
        failing_since=time_text_or_none(info.health.failing_ms),
        failing_reason=info.health.reason if info.health.is_failing else "",
        failed_starts=[_failure_view(one, seen_as) for one in info.health.failures],
        shard=info.shard,
        images=sorted(info.cached_images),
        device_faults=dict(info.health.faults),
        devices=device_figures(state.devices) if measured and state is not None else {},
        unapproved=info.claims.texts(),
    )


def _failure_view(failure: AgentFailure, seen_as: Role) -> AgentFailureView:
    at = time_text(failure.at_ms)
    if seen_as is not Role.ADMIN:
        return AgentFailureView(at=at, code=failure.code)
    return AgentFailureView(
        at=at, code=failure.code, session=failure.session_id, user=failure.user, detail=failure.detail
    )


def scaling_group_view(group: ScalingGroup) -> ScalingGroupBody:
    """The view of a scaling group."""
    return ScalingGroupBody(
        name=group.name,
        scheduler=group.scheduler,
        scheduler_opts=dict(group.scheduler_opts),
        known_slots=list(group.known_slots),
        slot_priority=list(group.slot_priority),
        session_types=[one.value for one in group.session_types],
        public=group.public,
        assigned_to=list(group.assigned_to),
        default_queue=group.default_queue,
        lifetime_max_s=group.lifetime_max_s,
        idle_timeout_s=group.idle_timeout_s,
        idle_timeout_max_s=group.idle_timeout_max_s,
        pending_timeout_s=group.pending_timeout_s,
        usage_half_life_s=group.usage_half_life_s,
        slot_weights=dict(group.slot_weights),
        mem_per_gpu=_memory_text(group.mem_per_gpu_bytes),
        mem_per_cpu=_memory_text(group.mem_per_cpu_bytes),
        allow_best_effort=group.allow_best_effort,
        best_effort_per_agent_max=group.best_effort_per_agent_max,
        best_effort_per_user_max=group.best_effort_per_user_max,
        mount_roots=list(group.mount_roots),
        isolated_network=group.isolated_network,
    )


def scaling_group_of(body: ScalingGroupBody, _before: ScalingGroup | None) -> ScalingGroup:
    """The scaling group of a body; a scheduler option that is null is removed."""
    return ScalingGroup(
        name=ScalingGroupName(body.name),
        scheduler=body.scheduler,
        scheduler_opts={key: value for key, value in body.scheduler_opts.items() if value is not None},
        known_slots=tuple(body.known_slots),
        slot_priority=tuple(body.slot_priority) or SLOT_PRIORITY_DEFAULT,
        session_types=read_session_types(body.session_types, what=f"scaling group {body.name}"),
        public=body.public,
        assigned_to=tuple(dict.fromkeys(body.assigned_to)),
        default_queue=None if body.default_queue is None else QueueName(body.default_queue),
        lifetime_max_s=body.lifetime_max_s,
        idle_timeout_s=body.idle_timeout_s,
        idle_timeout_max_s=body.idle_timeout_max_s,
        pending_timeout_s=body.pending_timeout_s,
        usage_half_life_s=body.usage_half_life_s,
        slot_weights=body.slot_weights,
        mem_per_gpu_bytes=_memory_bytes(body.mem_per_gpu),
        mem_per_cpu_bytes=_memory_bytes(body.mem_per_cpu),
        allow_best_effort=body.allow_best_effort,
        best_effort_per_agent_max=body.best_effort_per_agent_max,
        best_effort_per_user_max=body.best_effort_per_user_max,
        mount_roots=tuple(dict.fromkeys(body.mount_roots)),
        isolated_network=body.isolated_network,
    )


def _memory_text(amount: int | None) -> str | None:
    return None if amount is None else format_amount("mem", amount)


def _memory_bytes(amount: Amount | None) -> int | None:
    return None if amount is None else parse_amount("mem", amount)


def queue_view(queue: Queue) -> QueueBody:
    """The view of a queue."""
    return QueueBody(
        name=queue.name,
        parent=None if queue.parent == ROOT_QUEUE else queue.parent,
        weight=queue.weight,
        priority=queue.priority,
        open=queue.state is QueueState.OPEN,
        reclaimable=queue.reclaimable,
        min_runtime_s=queue.min_runtime_s,
        return_s=queue.return_s,
        deserved=amounts(queue.deserved) or None,
        guarantee=amounts(queue.guarantee) or None,
        capability=amounts(queue.capability) or None,
    )


def queue_of(body: QueueBody, _before: Queue | None) -> Queue:
    """The queue of a body. Raises InvalidSpec."""
    if body.name == ROOT_QUEUE and not body.open:
        # It is above every queue, and would stop all of them at once, those that are created later as well.
        problem, hint = "the root queue cannot be closed", "close the queues below it"
        raise InvalidSpec(what="queue", field="open", value=False, problem=problem, hint=hint)
    return Queue(
        name=QueueName(body.name),
        weight=body.weight,
        priority=body.priority,
        state=QueueState.OPEN if body.open else QueueState.CLOSED,
        parent=QueueName(body.parent) if body.parent is not None else ROOT_QUEUE,
        reclaimable=body.reclaimable,
        min_runtime_s=body.min_runtime_s,
        return_s=body.return_s,
        capability=read_limits(body.capability or {}),
        deserved=read_limits(body.deserved or {}),
        guarantee=read_slots(body.guarantee or {}),
    )


def booking_view(booking: Booking) -> BookingBody:
    """The view of a booking."""
    return BookingBody(
        name=booking.name,
        starts_at=time_text(booking.from_ms),
        ends_at=time_text(booking.to_ms),
        kind="maintenance" if booking.kind is BookingKind.MAINTENANCE else "booking",
        agents=list(booking.agents),
        hypernode=booking.hypernode,
        users=list(booking.users),
        groups=list(booking.groups),
        queues=list(booking.queues),
        release_unused_s=booking.release_unused_s,
        slots=amounts(booking.slots) or None,
        return_s=booking.return_s,
    )


def booking_of(body: BookingBody, _before: Booking | None) -> Booking:
    """The booking of a body. Raises InvalidSpec."""
    from_ms = read_time(body.starts_at, field="starts_at", what="booking")
    to_ms = read_time(body.ends_at, field="ends_at", what="booking")
    if to_ms <= from_ms:
        problem = f"is not after its beginning, {body.starts_at}"
        raise InvalidSpec(what=f"booking {body.name}", field="ends_at", value=body.ends_at, problem=problem)
    return Booking(
        name=body.name,
        from_ms=from_ms,
        to_ms=to_ms,
        kind=BookingKind(body.kind),
        agents=tuple(dict.fromkeys(body.agents)),
        hypernode=body.hypernode,
        users=tuple(dict.fromkeys(body.users)),
        groups=tuple(dict.fromkeys(body.groups)),
        queues=tuple(dict.fromkeys(body.queues)),
        release_unused_s=body.release_unused_s,
        slots=read_slots(body.slots or {}),
        return_s=body.return_s,
    )


def image_view(image: Image) -> ImageBody:
    """The view of an image."""
    return ImageBody(
        name=image.name,
        architecture=image.architecture,
        digest=image.digest,
        slots_min=amounts(image.slots_min),
    )


def image_of(body: ImageBody, _before: Image | None) -> Image:
    """The image of a body."""
    return Image(
        name=body.name, architecture=body.architecture, digest=body.digest, slots_min=read_slots(body.slots_min)
    )


def read_limits(given: Mapping[str, Amount]) -> SlotLimits:
    """Parse limits; 0 is a valid limit. Raises InvalidSlots."""
    return SlotLimits(
        {slot: parse_amount(checked_slot_name(slot, given=given), amount) for slot, amount in given.items()}
    )


def amounts(given: Mapping[str, int]) -> dict[str, Amount]:
    """Amounts in the notation that requests use, so that a view can be sent back."""
    return {slot: format_amount(slot, amount) for slot, amount in given.items()}
