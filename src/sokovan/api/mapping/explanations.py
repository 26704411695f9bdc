"""Converts explanations, plans and the use of devices to wire types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sokovan.api.mapping.sessions import eviction_cost_view
from sokovan.api.mapping.times import time_text, time_text_or_none
from sokovan.domain.records import KernelRecord
from sokovan.orchestrator.sessions.explain.departures import BookedSession
from sokovan.orchestrator.sessions.explain.explanations import (
    Explanation,
    PlannedSession,
    PlannedVictim,
    WaitingSummary,
)
from sokovan.ports.agent_states import AgentState, DeviceFigures
from sokovan.scheduling.trace import Check
from sokovan.wire.api.explanations import (
    AheadView,
    BookingEvictionView,
    CheckView,
    DeviceFiguresView,
    PlacementView,
    PlanView,
    ReasonView,
    StartView,
    VictimView,
    WaitingReason,
    WaitingView,
    WhyView,
)


def why_view(explanation: Explanation) -> WhyView:
    """The view of an explanation."""
    return WhyView(
        session=explanation.session_id,
        status=explanation.status.value,
        verdict=str(explanation.verdict),
        code=explanation.code,
        summary=explanation.summary,
        checks=_checks(explanation.checks),
        funnel=dict(explanation.funnel),
        position=explanation.position,
        ahead=[AheadView(session=one.session, why=one.why) for one in explanation.ahead],
        would_start=[StartView(when=str(one.when), change=one.change) for one in explanation.would_start],
        history=[
            ReasonView(
                code=one.code,
                summary=one.summary,
                count=one.count,
                first=time_text(one.first_ms),
                last=time_text(one.last_ms),
            )
            for one in explanation.history
        ],
        as_of=time_text_or_none(explanation.as_of_ms),
        name=explanation.name,
        times_out_at=time_text_or_none(explanation.times_out_ms),
        until=time_text_or_none(explanation.until_ms),
        evicts=_victims(explanation.evicts),
    )


def plan_view(planned: PlannedSession) -> PlanView:
    """The view of a dry-run plan."""
    return PlanView(
        would_start=str(planned.would_start),
        code=planned.code,
        summary=planned.summary,
        verdict=str(planned.verdict),
        slots=dict(planned.slots),
        size=planned.size,
        scaling_group=planned.scaling_group,
        queue=planned.queue,
        image=planned.image,
        placements=[PlacementView(kernel=kernel, agent=agent) for kernel, agent in planned.placements],
        checks=_checks(planned.checks),
        funnel=dict(planned.funnel),
        position=planned.position,
        evicts=_victims(planned.evicts),
    )


def waiting_view(reasons: Iterable[WaitingSummary]) -> WaitingView:
    """The view of all waiting sessions, by reason."""
    return WaitingView(
        items=[
            WaitingReason(
                code=one.code,
                verdict=str(one.verdict),
                sessions=one.sessions,
                slots=dict(one.slots),
                oldest=time_text(one.oldest_ms),
                meaning=one.meaning,
            )
            for one in reasons
        ]
    )


def _checks(checks: Iterable[Check]) -> list[CheckView]:
    return [CheckView(name=one.name, result=one.result, detail=one.detail) for one in checks]


def _victims(victims: Iterable[PlannedVictim]) -> list[VictimView]:
    return [
        VictimView(
            session=one.session,
            name=one.name,
            action=one.action,
            kernels=one.kernels,
            whole=one.whole,
            lost_slot_s=one.lost_s,
            rule=one.rule,
            cost=eviction_cost_view(one.cost),
            next_best=eviction_cost_view(one.runner_up),
        )
        for one in victims
    ]


def device_figures(devices: Mapping[str, DeviceFigures]) -> dict[str, DeviceFiguresView]:
    """The view of figures of devices."""
    return {
        name: DeviceFiguresView(
            use_percent=one.use_percent,
            memory_used_bytes=one.memory_used_bytes,
            memory_bytes=one.memory_bytes,
            temperature_c=one.temperature_c,
        )
        for name, one in devices.items()
    }


def held_figures(kernel: KernelRecord, state: AgentState | None) -> dict[str, DeviceFiguresView]:
    """The figures of the devices that a kernel holds, as far as they are measured."""
    known = {} if state is None else state.devices
    held = [device for devices in kernel.devices.values() for device in devices]
    return device_figures({device: known[device] for device in held if device in known})


def booked_session_view(one: BookedSession) -> BookingEvictionView:
    """A session that leaves for a booking, or was evicted for it."""
    session, leaves, receipt = one.session, one.leaves, one.receipt
    if receipt is not None:
        kernels, whole, from_ms, to_ms = receipt.kernels, receipt.whole, receipt.at_ms, receipt.evict_at_ms
    elif leaves is not None:
        kernels, whole, from_ms, to_ms = len(leaves.kernels), leaves.is_whole, leaves.at_ms, leaves.ends_ms
    else:
        raise ValueError("it neither leaves nor was evicted")
    return BookingEvictionView(
        session=session.session_id,
        name=session.spec.name,
        user=session.spec.owner.user,
        kernels=kernels,
        whole=whole,
        notice_at=time_text(from_ms),
        ends_by=time_text(to_ms),
        then="shrink" if not whole else "requeue" if session.spec.returns else "end",
        evicted=receipt is not None,
        ended_at=None if receipt is None else time_text_or_none(receipt.ended_ms),
        lost_slot_s=None if receipt is None else receipt.lost_s,
    )
