"""Verdicts: what became of every session, with the numbers as they are at the end.

Room only shrinks in a cycle, so what did not fit when it was tried does not fit at
the end either, and one report per shape serves every session of that shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from sokovan.domain.cluster.topology import ROOT
from sokovan.domain.ids import SessionId
from sokovan.domain.slot_notation import format_slots
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.scheduling.engine.pending_session import Failure, PendingSession
from sokovan.scheduling.engine.placement import CycleContext
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.topology_search import Tier, TopologySearch
from sokovan.scheduling.engine.usage.cluster_totals import ClusterTotals
from sokovan.scheduling.engine.usage.queue_usage import QueueUsage
from sokovan.scheduling.engine.workspace import ONE_BITS, Flags, Ints, Workspace
from sokovan.scheduling.trace import MEANING, Advice, Check, Code, Funnel, Verdict

AHEAD_SHOWN = 3


class Report(NamedTuple):
    """One shape against the agents at the end of the cycle."""

    funnel: Funnel
    kernels_fit: int
    held: bool
    best_agent: str | None
    shortfall: ResourceSlot
    never_agent: str | None
    never_shortfall: ResourceSlot


class Explainer:
    """Writes the verdicts of one cycle."""

    def __init__(self, workspace: Workspace, book: QueueUsage, floor: CycleContext) -> None:
        self._workspace, self._book = workspace, book
        self._domains = floor.domains
        self._plugged = floor.plugged
        self._stock = ClusterTotals(workspace)
        self._reports: dict[Shape, Report] = {}
        self._templates: dict[tuple[str, Failure], Verdict] = {}

    def verdicts(self, jobs: Iterable[PendingSession], *, notes: tuple[Check, ...] = ()) -> list[Verdict]:
        """A verdict for every session, with what it waits behind."""
        lines: dict[str, list[SessionId]] = {}
        ordered = sorted(jobs, key=lambda job: (-job.session.priority, job.rank))
        verdicts = []
        for job in ordered:
            if job.placed:
                verdicts.append(self._placed(job, notes))
                continue
            line = lines.setdefault(job.node.name, [])
            verdict = self._reserved(job, notes) if job.reserved else self._told(job, notes)
            # Everything but who it is and where it stands is often shared.
            name = job.session.session_id
            verdicts.append(Verdict(name, *verdict[1:-2], len(line), tuple(line[:AHEAD_SHOWN])))
            if MEANING[verdict.code][0] is Advice.WAIT:
                # Who cannot go as things are stands in nobody's way.
                line.append(name)
        return verdicts

    def _told(self, job: PendingSession, notes: tuple[Check, ...]) -> Verdict:
        """What a session that waits is told; sessions of one kernel that fail alike share it."""
        failure = job.failure
        if failure is None or failure.shape is None or not job.single or failure.checks:
            return self._pending(job, notes)
        key = (job.node.name, failure)
        if key not in self._templates:
            self._templates[key] = self._pending(job, notes)
        return self._templates[key]

    def _placed(self, job: PendingSession, notes: tuple[Check, ...]) -> Verdict:
        kernels = len(job.session.kernels)
        if kernels == 1:
            summary = f"placed on {self._workspace.ids[job.agents[-1]]}"
        else:
            summary = f"{job.placed} of {kernels} kernels placed on {len(set(job.agents[-job.placed :]))} agents"
        if job.runs and job.failure is not None:
            summary += f", {job.waiting} wait: {self._cause(job, job.failure)[1]}"
        return Verdict(
            job.session.session_id,
            Code.PLACED,
            summary,
            checks=(*job.checks, *notes) if notes else job.checks,
            kernels_needed=job.minimum,
            kernels_fit=job.placed,
            kernels_placed=job.placed,
        )

    def _reserved(self, job: PendingSession, notes: tuple[Check, ...]) -> Verdict:
        summary = f"waits for room that is being released; {job.reserved} places are held for it"
        return Verdict(
            job.session.session_id,
            Code.RESERVED,
            summary,
            checks=(*job.checks, *notes, Check("room", "short", summary)),
            kernels_needed=job.minimum,
            kernels_fit=job.reserved,
        )

    def _pending(self, job: PendingSession, notes: tuple[Check, ...]) -> Verdict:
        failure = job.failure
        if failure is None:
            code = Code.NOT_TRIED if job.runs else Code.BEST_EFFORT
            text = MEANING[code][1] + (": add allocate to its actions" if job.runs else "")
            return Verdict(
                job.session.session_id, code, text, checks=(*job.checks, *notes, Check("actions", "no", text))
            )
        code, summary = self._cause(job, failure)
        report = self._report(failure.shape) if failure.shape is not None else None
        failed = {check.name for check in failure.checks}
        checks = (*(check for check in job.checks if check.name not in failed), *failure.checks, *notes)
        if not failure.checks:
            checks = (*checks, *self._answers(code, summary, failure))
        verdict = Verdict(
            job.session.session_id, code, summary, checks, kernels_fit=job.fitted, kernels_needed=job.need()
        )
        if report is None:
            return verdict
        never = code is Code.NEVER_FITS
        return verdict._replace(
            funnel=report.funnel._replace(topology=0) if failure.closeness else report.funnel,
            shortfall=report.never_shortfall if never else report.shortfall,
            best_agent=report.never_agent if never else report.best_agent,
            kernels_fit=job.fitted if len(job.runs) > 1 or failure.closeness else min(job.need(), report.kernels_fit),
        )

    def _answers(self, code: Code, summary: str, failure: Failure) -> tuple[Check, ...]:
        """What is short, as checks: where a queue may have all there is, room is, not the queue."""
        refusal = failure.refusal
        if refusal is not None and code is failure.code and self._stock.is_all_of_it(refusal):
            own = Check("queue", "ok", f"queue {refusal.queue} may have all {refusal.slot} that there is")
            return own, Check("room", "short", self._stock.free(refusal.slot))
        return (Check(_question(code), "no" if failure.shape is None else "short", summary),)

    def _cause(self, job: PendingSession, failure: Failure) -> tuple[Code, str]:
        if failure.shape is None:
            return failure.code or Code.NOT_ENOUGH_FREE, failure.text
        report, shape = self._report(failure.shape), failure.shape
        # Where no queue keeps a session from what there is, what there is is short.
        by_queue = failure.code in {Code.QUEUE_OVER_SHARE, Code.QUEUE_LIMIT}
        code = None if by_queue and not self._book.contended(job.node, shape.slot_pairs) else failure.code
        if code is not None and failure.refusal is not None:
            short = self._stock.is_all_of_it(failure.refusal)
            return code, self._stock.shortage(failure.refusal) if short else failure.refusal.sentence()
        if code is not None and failure.text:
            return code, failure.text
        if code is not None or report.funnel.could_ever_fit == 0:
            return self._hopeless(job, shape, report, code)
        if failure.closeness:
            return self._not_close(job, shape)
        return self._no_room(job, shape, report)

    def _hopeless(self, job: PendingSession, shape: Shape, report: Report, code: Code | None) -> tuple[Code, str]:
        funnel, slots = report.funnel, _asks(shape)
        if not funnel.all:
            return Code.NO_NODES, "the scaling group has no agents"
        if code is Code.OTHER_SHARD:
            return code, f"only agents of another shard could hold {slots}, and shards are hard"
        if code is Code.NODES_DRAINING or (not funnel.alive and shape.possible_total):
            return Code.NODES_DRAINING, self._not_taking(job, shape, report)
        if funnel.alive and not funnel.architecture:
            return Code.NO_ARCH_MATCH, f"none of {funnel.alive} agents has the architecture {shape.architecture}"
        if funnel.architecture and not funnel.labels:
            wanted = ", ".join(f"{name}={value}" for name, value in shape.require)
            return Code.NO_LABEL_MATCH, f"none of {funnel.architecture} agents has the labels {wanted}"
        if not shape.possible_total:
            lacks = format_slots(report.never_shortfall) or "a place for a kernel"
            text = f"no agent could ever hold {slots}; the largest candidate {report.never_agent} lacks {lacks}"
            return Code.NEVER_FITS, text
        text = f"an empty cluster holds {shape.ever_total} kernels of {slots}, {job.need()} must start together"
        return Code.NEVER_FITS, text

    def _not_taking(self, job: PendingSession, shape: Shape, report: Report) -> str:
        """What is said where agents that take no work at the moment would be needed."""
        slots, stock = _asks(shape), self._stock
        if shape.alive_total:
            needed = f"of the {job.need()} kernels that must start together"
            return f"{needed}, agents that take new work could hold {shape.alive_total} of {slots}; {stock.away}"
        alive = f" ({report.funnel.alive} are alive)" if stock.answers else f": {stock.away}"
        return f"no agent that could hold {slots} takes new work{alive}"

    def _no_room(self, job: PendingSession, shape: Shape, report: Report) -> tuple[Code, str]:
        slots = _asks(shape)
        if self._plugged and len(job.runs) == 1 and report.kernels_fit >= job.need():
            text = f"{slots} would fit, but the selector or a plugin keeps it from every agent that has room"
            return Code.REFUSED_BY_PLUGIN, text
        if report.kernels_fit:
            fit = min(job.need() - 1, job.fitted if len(job.runs) > 1 else report.kernels_fit)
            text = f"insufficient resources: {fit} of {job.need()} kernels would fit, {slots} is what is short"
            return Code.FRAGMENTED, text
        if report.held:
            return Code.RESERVED_FOR_GANG, f"the room for {slots} is held for a session that goes first"
        lacks = format_slots(report.shortfall) or "a place for a kernel"
        text = f"insufficient resources: {slots} fits no agent now; best candidate {report.best_agent} lacks {lacks}"
        return Code.NOT_ENOUGH_FREE, text

    def _not_close(self, job: PendingSession, shape: Shape) -> tuple[Code, str]:
        domains = self._domains
        if domains is None:
            return Code.TOPOLOGY_NO_ROOM, "no part of the network that is close enough has room"
        tiers = self._tiers(job, domains)
        demand = [(run.shape, len(run.kernels)) for run in job.runs]
        if job.minimum - job.have >= job.waiting and not domains.could_ever(tiers, demand):
            text = f"no HyperNode that is allowed could hold {job.need()} kernels even if it were empty"
            return Code.TOPOLOGY_IMPOSSIBLE, text
        most, where = domains.most_that_fit(tiers, demand)
        upto = "at most " if len({run.shape for run in job.runs}) > 1 else ""
        if self._plugged and len(job.runs) == 1 and not job.parts and most >= job.need():
            return Code.REFUSED_BY_PLUGIN, f"{where} has room for {most} kernels, but a plugin keeps them from it"
        best = f"the best, {where}, has room for {upto}{most}" if where and where != ROOT else "none has room for any"
        text = f"insufficient resources close together: {job.need()} kernels of {_asks(shape)}; {best}"
        return Code.TOPOLOGY_NO_ROOM, text

    @staticmethod
    def _tiers(job: PendingSession, domains: TopologySearch) -> list[Tier]:
        topology = job.session.topology or next((p.topology for p in job.parts if p.topology), None)
        return domains.tiers(domains.bounds(topology), inside=ROOT, agents=job.agents)

    def _report(self, shape: Shape) -> Report:
        if shape not in self._reports:
            self._reports[shape] = self._examined(shape)
        return self._reports[shape]

    def _examined(self, shape: Shape) -> Report:
        workspace = self._workspace
        counts = shape.fit_counts(workspace)
        fits = int((counts > 0).sum())
        idle = (workspace.idle[:, shape.columns] >= shape.amounts).all(axis=1)
        held = bool(workspace.held and (idle & shape.eligible & (counts == 0)).any())
        free = np.minimum(workspace.idle, workspace.future)
        best, shortfall = self._least_lacking(shape, free, shape.eligible)
        never, never_shortfall = self._least_lacking(shape, workspace.capacity, np.ones(len(workspace.ids), bool))
        funnel = shape.funnel._replace(fits_now=fits, topology=fits)
        return Report(funnel, int(counts.sum()), held, best, shortfall, never, never_shortfall)

    def _least_lacking(self, shape: Shape, table: Ints, among: Flags) -> tuple[str | None, ResourceSlot]:
        """The agent that lacks least of the shape, and what it lacks."""
        chosen = np.flatnonzero(among)
        if not len(chosen):
            return None, NO_SLOTS
        lacks = np.maximum(shape.amounts - table[chosen][:, shape.columns], 0)
        # Both sides are scaled down alike, so that the product with ONE stays inside 63 bits.
        shift = max(0, int(shape.amounts.max()).bit_length() - 42)
        weighed = ((lacks >> shift) << ONE_BITS) // np.maximum(shape.amounts >> shift, 1)
        order = np.lexsort((self._workspace.id_rank[chosen], weighed.sum(axis=1)))
        best = int(order[0])
        names = [*self._workspace.slots, "kernels"]
        amounts = {names[c]: int(n) for c, n in zip(shape.columns, lacks[best], strict=True)}
        amounts.pop("kernels", None)
        return self._workspace.ids[int(chosen[best])], ResourceSlot(amounts)


def _asks(shape: Shape) -> str:
    return format_slots(shape.slots) or "a kernel that asks for nothing"


def _question(code: Code) -> str:
    """The check that a code answers, for the list of all checks."""
    if code.startswith("QUEUE"):
        return "queue"
    if "PLUGIN" in code:
        return "plugin"
    return "topology" if code.startswith("TOPOLOGY") else "room"
