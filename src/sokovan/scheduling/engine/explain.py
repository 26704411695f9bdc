"""Explainer: the DecisionTrace of a cycle.

Takes all pending sessions at the end of a cycle. Gives a verdict for each, with the
numbers of that moment. Free room only shrinks in a cycle (evictions free it later), so a
shape that did not fit when it was tried does not fit at the end either, and one FitError
per shape serves every session of that shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from sokovan.domain.cluster.agent import DOCKER_RUNTIME, PROCESS_RUNTIME
from sokovan.domain.cluster.topology import ROOT
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.durations import duration_text, duration_text_of
from sokovan.domain.lifecycle.eviction import kernels_text
from sokovan.domain.session import ANY_PORT
from sokovan.domain.slot_notation import format_slots
from sokovan.domain.slots import is_cuda
from sokovan.scheduling.engine.gang import CycleContext
from sokovan.scheduling.engine.pending_session import PendingReason, PendingSession
from sokovan.scheduling.engine.shapes import FitError, Shape
from sokovan.scheduling.engine.timing.calendar import holder_on
from sokovan.scheduling.engine.topology_search import Tier
from sokovan.scheduling.engine.usage.cluster_totals import ClusterTotals
from sokovan.scheduling.engine.workspace import Ints
from sokovan.scheduling.snapshot import latest_start
from sokovan.scheduling.trace import MEANING, RESERVED_FOR, Advice, Check, Code, DecisionTrace, Funnel, Verdict

AHEAD_SHOWN = 3
# Unschedulable and held sessions are not counted as ahead.
_COUNTED_AS_AHEAD = frozenset(
    code for code, (advice, *_) in MEANING.items() if advice is Advice.WAIT and code is not Code.HELD
)
AFFINITY_TEXT = "affinity or anti-affinity to other sessions excludes them now"


class Explainer:
    """Builds the verdicts of one cycle."""

    def __init__(self, context: CycleContext, *, now_ms: int = 0) -> None:
        self._context, self._workspace, self._now_ms = context, context.workspace, now_ms
        self._totals = ClusterTotals(context.workspace)
        self._fit_errors: dict[Shape, FitError] = {}
        self._shared: dict[tuple[str, PendingReason, int, bool], Verdict] = {}

    def trace(self, sessions: Iterable[PendingSession], *, notes: tuple[Check, ...] = ()) -> DecisionTrace:
        """A verdict for every session, with the sessions ahead of it in its queue."""
        # How many sessions of each queue are ahead, and the first few of them.
        queues: dict[str, tuple[int, tuple[SessionId, ...]]] = {}
        verdicts, dated = [], self._context.calendar is not None
        for pending in sorted(sessions, key=lambda pending: (-pending.session.priority, pending.rank)):
            if pending.placed:
                verdicts.append(self._placed(pending, notes))
                continue
            if pending.reserved:
                verdict = self._reserved(pending, notes)
            elif dated or pending.session.deadline_ms is not None:
                verdict = self._late(pending, notes)
            else:
                verdict = self._waiting(pending, notes)
            # The rest of a verdict may be shared by many sessions.
            session_id, queue = pending.session.session_id, pending.node.name
            position, ahead = queues.get(queue, (0, ()))
            verdicts.append(Verdict(session_id, *verdict[1:-2], position, ahead))
            if verdict.code in _COUNTED_AS_AHEAD:
                queues[queue] = (position + 1, (*ahead, session_id) if position < AHEAD_SHOWN else ahead)
        return DecisionTrace(verdicts)

    def _placed(self, pending: PendingSession, notes: tuple[Check, ...]) -> Verdict:
        kernels = len(pending.session.kernels)
        if kernels == 1:
            summary = f"placed on {self._workspace.ids[pending.agents[-1]]}"
        else:
            agents = len(set(pending.agents[-pending.placed :]))
            summary = f"{pending.placed} of {kernels} kernels placed on {agents} agents"
        if pending.loan_s is not None:
            back = duration_text(pending.loan_s)
            summary += f", on loan from queue {pending.node.name}, which has it back within {back}"
        calendar = self._context.calendar
        for booking in () if calendar is None else calendar.lenders(pending.session, pending.agents):
            begins = duration_text_of(booking.from_ms - self._now_ms)
            summary += f", lent by booking {booking.name}, which begins in {begins} and evicts it before"
        if pending.batches and pending.reason is not None:
            summary += f", {pending.waiting} wait: {self._cause(pending, pending.reason)[1]}"
        return Verdict(
            pending.session.session_id,
            Code.PLACED,
            summary,
            checks=(*pending.checks, *notes) if notes else pending.checks,
            kernels_needed=pending.minimum,
            kernels_fit=pending.placed,
            kernels_placed=pending.placed,
        )

    def _reserved(self, pending: PendingSession, notes: tuple[Check, ...]) -> Verdict:
        room = "room that is being released"
        if pending.evicts:  # nothing of it is released before the plan is carried out, and their notice is given
            room = f"the room of {kernels_text(pending.evicts)} that {_has(pending.evicts)} to leave for it"
        held = f"{kernels_text(pending.reserved)} {_has(pending.reserved)} a reservation"
        summary = f"waits for {room}; {held}"
        return Verdict(
            pending.session.session_id,
            Code.RESERVED,
            summary,
            checks=(*pending.checks, *notes, Check("room", "short", summary)),
            kernels_needed=pending.minimum,
            kernels_fit=pending.reserved,
        )

    def _late(self, pending: PendingSession, notes: tuple[Check, ...]) -> Verdict:
        """The verdict of a session without a place: also by when it starts, and that its deadline has passed."""
        verdict = self._waiting(pending, notes)
        calendar, deadline = self._context.calendar, latest_start(pending.session)
        if pending.starts_ms is not None and calendar is not None:
            starts_in = duration_text_of(pending.starts_ms - calendar.now_ms)
            starts = f"starts in {starts_in} at the latest, room is reserved for it"
            verdict = verdict._replace(code=Code.RESERVED, summary=f"{starts}; now: {verdict.summary}")
            verdict = verdict._replace(checks=(*verdict.checks, Check("start", "short", starts)))
        if calendar is not None and (booked := calendar.booked_for_others(pending)):
            verdict = verdict._replace(checks=(*verdict.checks, Check("bookings", "short", booked)))
        if deadline is not None and deadline < self._now_ms and MEANING[verdict.code][0] is Advice.WAIT:
            late = f"its deadline cannot be met: it had to start {duration_text_of(self._now_ms - deadline)} ago"
            summary = f"{late}; {verdict.summary}"
            checks = (*verdict.checks, Check("deadline", "no", late))
            verdict = verdict._replace(code=Code.DEADLINE_IMPOSSIBLE, summary=summary, checks=checks)
        return verdict

    def _waiting(self, pending: PendingSession, notes: tuple[Check, ...]) -> Verdict:
        """The verdict of a waiting session; single-kernel sessions with equal reasons share one."""
        reason = pending.reason
        if reason is None:
            return _not_served(pending, notes)
        if reason.shape is None or not pending.single or reason.checks:
            return self._pending(pending, reason, notes)
        # Sessions without objections have the same tuple of checks.
        key = (pending.node.name, reason, id(pending.checks), pending.session.time_limit_ms is None)
        verdict = self._shared.get(key)
        if verdict is None:
            verdict = self._shared[key] = self._pending(pending, reason, notes)
        return verdict

    def _pending(self, pending: PendingSession, reason: PendingReason, notes: tuple[Check, ...]) -> Verdict:
        code, summary = self._cause(pending, reason)
        failed = {check.name for check in reason.checks}
        checks = (*(check for check in pending.checks if check.name not in failed), *reason.checks, *notes)
        if not reason.checks:
            checks = (*checks, *self._shortage_checks(code, summary, reason), *self._tier_checks(pending, reason))
        faults = self._totals.faults if _check_name(code) == "room" and _needs_device(reason) else ""
        if faults:
            summary, checks = f"{summary}; {faults}", (*checks, Check("devices", "short", faults))
        need = pending.need()
        verdict = Verdict(
            pending.session.session_id, code, summary, checks, kernels_fit=pending.kernels_fit, kernels_needed=need,
            until_ms=reason.until_ms if code is Code.VICTIMS_PROTECTED else None,
        )  # fmt: skip
        if reason.shape is None:
            return verdict
        error, never = self._fit_error(reason.shape), code is Code.NEVER_FITS
        several = len(pending.batches) > 1 or reason.topology
        return verdict._replace(
            funnel=error.funnel._replace(topology=0) if reason.topology else error.funnel,
            shortfall=error.largest_shortfall if never else error.shortfall,
            best_agent=error.largest_agent if never else error.best_agent,
            kernels_fit=pending.kernels_fit if several else min(need, error.kernels_fit),
        )

    def _shortage_checks(self, code: Code, summary: str, reason: PendingReason) -> tuple[Check, ...]:
        """The failed checks: room rather than the queue, if the queue may use all that the cluster has."""
        refusal = reason.refusal
        if refusal is not None and code is reason.code and self._totals.limit_is_total(refusal):
            queue = Check("queue", "ok", f"queue {refusal.queue} may use all {refusal.slot} of the cluster")
            return queue, Check("room", "short", self._totals.free(refusal.slot))
        shortage = Check(_check_name(code), "no" if reason.shape is None else "short", summary)
        if code is not Code.RESERVED_FOR_GANG or reason.shape is None:
            return (shortage,)
        # A check of its own: only callers who may see the holder are shown its id.
        error, calendar = self._fit_error(reason.shape), self._context.calendar
        holder = error.holder
        if error.held_agent is None and error.timed_agent is not None and calendar is not None:
            holder = holder_on(calendar, self._workspace.position[error.timed_agent])
        return shortage, Check(RESERVED_FOR, "short", str(holder))

    def _tier_checks(self, pending: PendingSession, reason: PendingReason) -> Iterator[Check]:
        """A check for each tier that the session may use, with the HyperNodes that are left."""
        if not reason.topology:
            return
        demand = [(batch.shape, len(batch.kernels)) for batch in pending.batches]
        for room in self._context.topology.rooms(self._tiers(pending), demand):
            yield Check(f"tier {room.tier}", "ok" if room.fits_now else "short", room.sentence())

    def _cause(self, pending: PendingSession, reason: PendingReason) -> tuple[Code, str]:
        if reason.code is Code.VICTIMS_PROTECTED:
            return reason.code, self._without_victims(pending, reason)
        if reason.shape is None:
            text = reason.refusal.sentence() if reason.refusal is not None else reason.text
            return reason.code or Code.NOT_ENOUGH_FREE, text
        error, shape = self._fit_error(reason.shape), reason.shape
        # If the queue may use all that the cluster has, the cluster is what is short.
        by_queue = reason.code in {Code.QUEUE_OVER_SHARE, Code.QUEUE_LIMIT}
        if by_queue and not self._context.queue_usage.contended(pending.node, shape.slot_pairs):
            code = None
        else:
            code = reason.code
        if code is not None and reason.refusal is not None:
            short = self._totals.limit_is_total(reason.refusal)
            return code, self._totals.shortage(reason.refusal) if short else reason.refusal.sentence()
        if code is not None and reason.text:
            return code, reason.text
        if code is not None or error.funnel.could_ever_fit == 0:
            return self._unschedulable(pending, shape, error, code)
        if reason.topology:
            return self._no_hypernode(pending, shape)
        return self._no_room(pending, shape, error)

    def _without_victims(self, pending: PendingSession, reason: PendingReason) -> str:
        """The refusal of a queue, if it is short and not the cluster, and why no session is evicted."""
        refusal, shape = reason.refusal, reason.shape
        if refusal is None or self._totals.limit_is_total(refusal):
            return reason.text
        limited = shape is None or self._context.queue_usage.contended(pending.node, shape.slot_pairs)
        return f"{refusal.sentence()}; {reason.text}" if limited else reason.text

    def _unschedulable(
        self, pending: PendingSession, shape: Shape, error: FitError, code: Code | None
    ) -> tuple[Code, str]:
        funnel, slots = error.funnel, _request(shape)
        if not funnel.all:
            return Code.NO_NODES, "the scaling group has no agents"
        if code is Code.OTHER_SHARD:
            return code, f"only agents of another shard could hold {slots}, and shards are hard"
        if code is Code.AGENTS_AVOIDED:
            return code, f"{', '.join(shape.key.avoid)} failed to start it, and no other agent could hold {slots}"
        if code in {Code.NODES_DRAINING, Code.AGENTS_FAILING}:
            return code, self._unavailable(pending, shape)
        if not funnel.alive and shape.possible_total:
            failing = Code.AGENTS_FAILING if shape.reachable_total else Code.NODES_DRAINING
            return failing, self._unavailable(pending, shape)
        unmatched = _unmatched(shape, funnel)
        if unmatched is not None:
            return unmatched
        if not shape.possible_total:
            lacks = format_slots(error.largest_shortfall)
            lacks = lacks or self._one_more(shape, error.largest_agent, self._workspace.capacity)
            text = f"no agent could ever hold {slots}; the largest candidate {error.largest_agent} lacks {lacks}"
            return Code.NEVER_FITS, text
        text = f"an empty cluster holds {shape.ever_total} kernels of {slots}, {pending.need()} must start together"
        return Code.NEVER_FITS, text

    def _unavailable(self, pending: PendingSession, shape: Shape) -> str:
        """The text if agents that accept no work now would be needed."""
        slots, totals = _request(shape), self._totals
        if shape.alive_total:
            needed = f"of the {pending.need()} kernels that must start together"
            return f"{needed}, agents that accept work could hold {shape.alive_total} of {slots}; {totals.unavailable}"
        return f"no agent that could hold {slots} accepts work: {totals.unavailable}"

    def _no_room(self, pending: PendingSession, shape: Shape, error: FitError) -> tuple[Code, str]:
        slots, need = _request(shape), pending.need()
        if self._context.custom_plugins and len(pending.batches) == 1 and error.kernels_fit >= need:
            text = f"{slots} would fit, but the selector or a plugin excludes every agent that has room"
            return Code.REFUSED_BY_PLUGIN, text
        if error.kernels_fit:
            fit = min(need - 1, pending.kernels_fit if len(pending.batches) > 1 else error.kernels_fit)
            return Code.FRAGMENTED, f"insufficient resources: {fit} of {need} kernels would fit, {slots} is short"
        if error.held_agent is not None:
            room = f"the room for {slots} on {error.held_agent}"
            return Code.RESERVED_FOR_GANG, f"{room} is reserved for a session ahead"
        if error.timed_agent is not None and self._context.calendar is not None:
            booked = self._context.calendar.blocks[error.block].booking is not None
            text = f"the room for {slots} on {error.timed_agent} is {self._context.calendar.sentence(error.block)}"
            until = "it has no time limit" if pending.session.time_limit_ms is None else "it would not end by then"
            return Code.BOOKED if booked else Code.RESERVED_FOR_GANG, f"{text}, and {until}"
        if error.by_affinity and shape.affinity is not None:
            if shape.affinity.problem:
                return Code.TOPOLOGY_IMPOSSIBLE, f"its affinity cannot be met: {shape.affinity.problem}"
            return Code.AFFINITY, f"agents have room for {slots}, but {AFFINITY_TEXT}"
        if error.by_ports:
            fixed = [str(port) for port in shape.ports if port != ANY_PORT]
            ports = f"port {' or '.join(fixed)}" if fixed else "each port of the range"
            rests = "is leased, or rests for a minute after its release,"
            return Code.PORTS_TAKEN, f"{ports} {rests} on every agent with room for {slots}"
        free = np.minimum(self._workspace.idle, self._workspace.future)
        lacks = format_slots(error.shortfall) or self._one_more(shape, error.best_agent, free)
        text = f"insufficient resources: {slots} fits no agent now; best candidate {error.best_agent} lacks {lacks}"
        return Code.NOT_ENOUGH_FREE, text

    def _no_hypernode(self, pending: PendingSession, shape: Shape) -> tuple[Code, str]:
        topology, need = self._context.topology, pending.need()
        tiers = self._tiers(pending)
        demand = [(batch.shape, len(batch.kernels)) for batch in pending.batches]
        if pending.minimum - pending.have >= pending.waiting and not topology.could_ever(tiers, demand):
            text = f"no allowed HyperNode could hold {need} kernels even if it were empty"
            return Code.TOPOLOGY_IMPOSSIBLE, text
        most, best = topology.most_that_fit(tiers, demand)
        one_batch = len(pending.batches) == 1 and not pending.kernel_groups
        if self._context.custom_plugins and one_batch and most >= need:
            return Code.REFUSED_BY_PLUGIN, f"{best} has room for {most} kernels, but a plugin excludes it"
        upto = "at most " if len({batch.shape for batch in pending.batches}) > 1 else ""
        name = "the whole cluster" if best == ROOT else f"the best, {best},"
        room = f"{name} has room for {upto}{most}" if best else "none has room for any"
        text = f"insufficient resources close together: {need} kernels of {_request(shape)}; {room}"
        return Code.TOPOLOGY_NO_ROOM, text

    def _tiers(self, pending: PendingSession) -> list[Tier]:
        topology = self._context.topology
        constraint = pending.session.topology or next((g.topology for g in pending.kernel_groups if g.topology), None)
        return topology.tiers(topology.tier_limit(constraint), inside=ROOT, agents=pending.agents)

    def _one_more(self, shape: Shape, agent: str | None, amounts: Ints) -> str:
        """The kernel limit that an agent is at which has the slots of a kernel."""
        left = 0 if agent is None else int(amounts[self._workspace.position[agent], -1])
        return "room for one more best-effort kernel" if left > 0 and not shape.slots else "room for one more kernel"

    def _fit_error(self, shape: Shape) -> FitError:
        if shape not in self._fit_errors:
            self._fit_errors[shape] = shape.fit_error(self._workspace)
        return self._fit_errors[shape]


def _has(count: int) -> str:
    return "has" if count == 1 else "have"


def _unmatched(shape: Shape, funnel: Funnel) -> tuple[Code, str] | None:
    """The verdict if no agent has the architecture, the runtime, the labels, or only tolerated taints."""
    if funnel.alive and not funnel.architecture:
        return Code.NO_ARCH_MATCH, f"none of {funnel.alive} agents has the architecture {shape.architecture}"
    running = funnel.architecture - funnel.other_runtime
    if funnel.architecture and not running:
        return Code.NO_RUNTIME_MATCH, f"none of {funnel.architecture} agents can run {_kind(shape)}"
    if running and not funnel.labels:
        labels = [*(f"{name}={value}" for name, value in shape.key.require), *map(str, shape.key.where)]
        return Code.NO_LABEL_MATCH, f"none of {running} agents has the labels {', '.join(labels)}"
    if funnel.tainted and not funnel.could_ever_fit:
        text = f"{funnel.tainted} agents could hold {_request(shape)}, but have taints that it does not tolerate"
        return Code.AGENTS_TAINTED, text
    return None


def _not_served(pending: PendingSession, notes: tuple[Check, ...]) -> Verdict:
    """The verdict of a session that no action of the profile has tried."""
    code = Code.NOT_TRIED if pending.batches else Code.BEST_EFFORT
    text = MEANING[code][1] + (": add allocate to its actions" if pending.batches else "")
    return Verdict(
        pending.session.session_id, code, text, checks=(*pending.checks, *notes, Check("actions", "no", text))
    )


def _request(shape: Shape) -> str:
    return format_slots(shape.slots) or "a best-effort kernel"


def _kind(shape: Shape) -> str:
    """The kind of kernels of a shape, in words."""
    kinds = {PROCESS_RUNTIME: "processes (image host or venv:NAME)", DOCKER_RUNTIME: "containers"}
    kind = kinds.get(shape.key.runtime, "kernels")
    return f"{kind} that serve requests; fake agents cannot" if shape.key.serves else kind


def _needs_device(reason: PendingReason) -> bool:
    """Whether what does not fit has a device, or a share or slice of one."""
    slots = reason.shape.slots if reason.shape is not None else ()
    return any(map(is_cuda, slots))


def _check_name(code: Code) -> str:
    """The name of the check that a code answers."""
    if code.startswith("QUEUE"):
        return "queue"
    if "PLUGIN" in code:
        return "plugin"
    return "topology" if code.startswith("TOPOLOGY") else "room"
