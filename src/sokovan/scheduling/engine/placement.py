"""One turn of one session: find a place for what it needs now, or leave no trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sokovan.domain.cluster.topology import ROOT
from sokovan.domain.session import TopologyMode
from sokovan.scheduling.engine.agent_choice import AgentChoice
from sokovan.scheduling.engine.gang import Span, Trial
from sokovan.scheduling.engine.pending_session import NOBODY, Failure, KernelBatch, PendingSession
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.topology_search import Demand, Tier, TopologySearch
from sokovan.scheduling.engine.usage.queue_usage import QueueUsage
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.extensions import Extensions, GangView
from sokovan.scheduling.snapshot import KernelWorkload
from sokovan.scheduling.trace import Code


@dataclass(slots=True)
class CycleContext:
    """Where turns take place: workspace, choice of agents, queues, plugins."""

    workspace: Workspace
    choice: AgentChoice
    book: QueueUsage
    extensions: Extensions
    domains: TopologySearch | None = None
    misfits: set[Shape] | None = field(default_factory=set)
    plugged: bool = False  # whether a plugin or a selector of others may keep kernels from agents

    def close(self) -> TopologySearch:
        """The HyperNodes, looked at when the first session asks for closeness."""
        if self.domains is None:
            self.domains = TopologySearch(self.workspace)
        return self.domains


class PlacementAttempt:
    """One attempt for one session; afterwards `trial` holds what was found."""

    def __init__(self, job: PendingSession, floor: CycleContext) -> None:
        self._job, self._floor = job, floor
        self._grows = job.grows()
        self.trial = Trial(job, floor.workspace, floor.choice, floor.book)
        self.trial.misfits = floor.misfits
        self._start = self.trial.mark()
        self.failure: Failure | None = None
        self._runs = job.runs

    def take(self) -> bool:
        """Place or reserve what the session needs now; False if there is no way."""
        job = self._job
        self._runs = self._unopposed()
        if job.session.topology is not None or job.parts:
            found = self._in_domains()
        else:
            span = Span(0, len(self._floor.workspace.ids))
            self.trial.fill(self._runs, span)
            found = self._enough(later=True) and self._with_best_effort(span)
        if not found:
            job.fitted = max(job.fitted, len(self.trial.placed))
            self.trial.back(self._start)
            self.failure = self.failure or self._why()
        return found

    def _unopposed(self) -> list[KernelBatch]:
        """The kernels that neither a limit of the owner nor a plugin keeps out of this turn."""
        extensions, job = self._floor.extensions, self._job
        runs = [run for run in job.runs if run.shape not in job.barred] if job.barred else job.runs
        if extensions.at("allocatable"):
            self.trial.opposed = self._opposed
        if not extensions.at("pre_predicate"):
            return runs
        kept = []
        for run in runs:
            said = next(
                (s for s in extensions.ask("pre_predicate", job.session, run.kernels[0]) if s is not None), None
            )
            if said is None:
                kept.append(run)
            else:
                self.failure = self.failure or Failure(Code.REFUSED_BY_PLUGIN, said)
        return kept

    def _opposed(self, kernel: KernelWorkload, extra: list[int] | None) -> bool:
        """Whether a plugin keeps a kernel out of its queue, what the trial holds counted in."""
        view = self._floor.book.view(self._job.node, extra=extra)
        name = self._floor.extensions.objector("allocatable", view, kernel)
        if name is not None:
            text = f"plugin {name} keeps kernel {kernel.kernel_id} out of queue {self._job.node.name}"
            self.failure = self.failure or Failure(Code.REFUSED_BY_PLUGIN, text)
        return name is not None

    def _with_best_effort(self, span: Span) -> bool:
        """Find a place for the kernels that ask for nothing, where the minimum relies on them."""
        job, trial = self._job, self.trial
        found = [run for run, _, _ in (*trial.placed, *trial.reserved)]
        if not job.best_effort or job.stands(found, job.best_effort):
            return True
        lacking = [run for run in job.best_effort if not place_best_effort(run, trial, self._floor, span)]
        return job.stands(found, lacking)

    def abandon(self) -> None:
        """Undo the turn, whatever it has come to."""
        self.trial.back(self._start)

    def _enough(self, *, later: bool) -> bool:
        trial = self.trial
        if not trial.placed and not trial.reserved:
            return False
        if trial.ready():
            return self._agreed("session_ready", self._view())
        return later and trial.hoped() and self._agreed("session_pipelined", self._view())

    def _agreed(self, point: str, view: GangView) -> bool:
        return all(self._floor.extensions.ask(point, view))

    def _view(self, index: int = NOBODY) -> GangView:
        """How far the session has come, or one kernel group of it."""
        job, placed, reserved = self._job, self.trial.placed, self.trial.reserved
        if index == NOBODY:
            return GangView(job.session, "", job.minimum, job.have, len(placed), len(reserved))
        part = job.parts[index]
        mine = [sum(1 for run, _, _ in kernels if run.part == index) for kernels in (placed, reserved)]
        return GangView(job.session, part.value, part.size, part.have, *mine)

    def _why(self) -> Failure:
        trial = self.trial
        if trial.refusal is not None and trial.short is None:
            shape = self._job.runs[0].shape
            return Failure(trial.refusal.code, shape=shape, closeness=self._closeness(), refusal=trial.refusal)
        closeness = self._closeness()
        return Failure(None, shape=trial.short or self._job.runs[0].shape, closeness=closeness)

    def _closeness(self) -> bool:
        return self._job.session.topology is not None or any(part.topology for part in self._job.parts)

    def _in_domains(self) -> bool:
        """Search the HyperNodes: first for room that is free now, then for room that is being released."""
        job, domains = self._job, self._floor.close()
        tiers = [domains.root()]
        if job.session.topology is not None:
            bounds = domains.bounds(job.session.topology)
            tiers = domains.tiers(bounds, inside=ROOT, agents=job.agents)
            problem = bounds.problem
            if NOBODY in job.agents and job.session.topology.mode is TopologyMode.HARD:
                problem = "a kernel of it runs on an agent that is not there, so nobody knows what is close to it"
            if problem:
                self.failure = Failure(Code.TOPOLOGY_IMPOSSIBLE, problem)
                return False
        demand, whole = self._demand()
        for later in (False, True) if self._floor.workspace.releases else (False,):
            self.trial.may_reserve = later
            for tier in tiers:
                for name in self._allowed(tier, demand, whole=whole, later=later):
                    if self._holds(name, later=later):
                        return True
        return False

    def _allowed(self, tier: Tier, demand: Demand, *, whole: bool, later: bool, group: str | None = None) -> list[str]:
        """The domains of a tier to try, in order, after plugins had their say."""
        names = self._floor.close().candidates(tier, demand, whole=whole, later=later)
        extensions, session = self._floor.extensions, self._job.session
        point = "domains_for_session" if group is None else "domains_for_group"
        for plugin in extensions.at(point):
            given = (session, names) if group is None else (session, group, names)
            names = extensions.call(plugin, point, *given)
        scores: Counter[str] = Counter()
        for answer in extensions.ask("domain_order", session, names):
            if answer is not None:
                scores.update(dict(zip(names, answer, strict=True)))
        return sorted(names, key=lambda name: -scores[name]) if scores else names

    def _holds(self, name: str, *, later: bool) -> bool:
        """Whether the session fits into one domain; if not, nothing is left of the attempt."""
        mark = self.trial.mark()
        if self._job.parts:
            self._fill_parts(name, later=later)
        else:
            self.trial.fill(self._runs, self._floor.close().span(name))
        if self._enough(later=later) and self._with_best_effort(self._floor.close().span(name)):
            return True
        self._job.fitted = max(self._job.fitted, len(self.trial.placed))
        self.trial.back(mark)
        return False

    def _demand(self) -> tuple[list[tuple[Shape, int]], bool]:
        """What must go into one domain in this turn, and whether all of it must."""
        job, need = self._job, self._job.need()
        if self._grows:
            need = 1
        shapes: Counter[Shape] = Counter()
        left = need
        for run in job.runs:
            count = min(left, len(run.kernels))
            shapes[run.shape] += count
            left -= count
        kinds = {run.shape for run in job.runs}
        whole = not job.session.group_minimums and (len(kinds) == 1 or need >= job.waiting) and not self._grows
        return [(shape, count) for shape, count in shapes.items() if count], whole or len(kinds) == 1

    def _fill_parts(self, inside: str, *, later: bool) -> None:
        """Place kernel groups one after another, each close by its own rule, until the session is ready."""
        failed: set[int] = set()
        while True:
            part = self._next_part(failed)
            if part is None:
                return
            if not self._fill_part(part, inside, later=later):
                failed.add(part)
            elif self._grows or self.trial.ready():
                return

    def _next_part(self, failed: set[int]) -> int | None:
        """Groups that are demanded first, then other unready ones, then those that can grow."""
        job = self._job
        have = Counter(run.part for run, _, _ in (*self.trial.placed, *self.trial.reserved))
        left = self._left()
        ready = [part.have + have[index] >= part.size for index, part in enumerate(job.parts)]
        demanded: set[int] = set()
        for number, partition in enumerate(job.session.partitions):
            mine = [index for index, part in enumerate(job.parts) if part.partition == number]
            mine.sort(key=lambda index: (self._group_key(index), index))
            lacking = partition.min_groups - sum(ready[index] for index in mine)
            demanded.update([index for index in mine if not ready[index]][: max(0, lacking)])
        open_parts = [index for index in (*range(len(job.parts)), NOBODY) if index not in failed and left[index]]
        return min(
            open_parts,
            key=lambda index: (
                index not in demanded, index == NOBODY or ready[index], self._group_key(index), index == NOBODY, index
            ),
            default=None,
        )  # fmt: skip

    def _group_key(self, index: int) -> tuple[object, ...]:
        if index == NOBODY or not self._floor.extensions.at("group_order"):
            return ()
        return tuple(self._floor.extensions.ask("group_order", self._job.session, self._job.parts[index].value))

    def _left(self) -> Counter[int]:
        """How many kernels of each group this trial has not used yet."""
        left = Counter({run.part: 0 for run in self._runs})
        for run in self._runs:
            left[run.part] += len(run.kernels)
        for run, _, _ in (*self.trial.placed, *self.trial.reserved):
            left[run.part] -= 1
        return left

    def _fill_part(self, index: int, inside: str, *, later: bool) -> bool:
        job, trial, domains = self._job, self.trial, self._floor.close()
        runs = self._rest_of(index)
        part = None if index == NOBODY else job.parts[index]
        placed = [agent for run, _, agent in (*trial.placed, *trial.reserved) if run.part == index]
        count = max(1, self._owed(index), 0 if part is None else part.size - part.have - len(placed))
        if sum(len(run.kernels) for run in runs) < count:
            return False
        if part is None or part.topology is None:
            return self._fill_exactly(runs, count, domains.span(inside), part=index)
        bounds = domains.bounds(part.topology)
        if bounds.problem:
            self.failure = Failure(Code.TOPOLOGY_IMPOSSIBLE, bounds.problem)
            return False
        demand, whole = _first(runs, count), len({run.shape for run in runs}) == 1
        for tier in domains.tiers(bounds, inside=inside, agents=[*part.agents, *placed]):
            for name in self._allowed(tier, demand, whole=whole, later=later, group=part.value):
                if self._fill_exactly(runs, count, domains.span(name), part=index):
                    return True
        return False

    def _owed(self, index: int) -> int:
        """How many kernels must come from this group, as all the others together are too few for the minimum.

        They are placed in one go: a group that is close by its own rule could not
        grow out of the domain that its first kernel happened to take.
        """
        missing = self._job.minimum - self._job.have - len(self.trial.placed) - len(self.trial.reserved)
        others = sum(count for part, count in self._left().items() if part != index)
        return missing - others

    def _fill_exactly(self, runs: list[KernelBatch], count: int, span: Span, *, part: int) -> bool:
        mark = self.trial.mark()
        if self.trial.fill_exactly(runs, count, span):
            point = "group_pipelined" if len(self.trial.reserved) > mark.reserved else "group_ready"
            if part == NOBODY or self._agreed(point, self._view(part)):
                return True
        self.trial.back(mark)
        return False

    def _rest_of(self, index: int) -> list[KernelBatch]:
        used = {kernel.kernel_id for _, kernel, _ in (*self.trial.placed, *self.trial.reserved)}
        rest = []
        for run in self._runs:
            kernels = [kernel for kernel in run.kernels if kernel.kernel_id not in used] if run.part == index else []
            if kernels:
                rest.append(KernelBatch(run.shape, kernels, nominated=run.nominated, part=run.part))
        return rest


def place_best_effort(run: KernelBatch, trial: Trial, floor: CycleContext, span: Span) -> int:
    """Place a kernel that asks for nothing, close to its group by a hard rule."""
    part = None if run.part == NOBODY else trial.job.parts[run.part]
    if part is None or part.topology is None or part.topology.mode is TopologyMode.SOFT:
        return trial.place(run, run.kernels, span)
    domains = floor.close()
    seats = (*trial.placed, *trial.reserved)
    mine = [*part.agents, *(agent for other, _, agent in seats if other.part == run.part)]
    for tier in domains.tiers(domains.bounds(part.topology), inside=ROOT, agents=mine):
        for inner in map(domains.span, tier.names):
            if span.low <= inner.low and inner.high <= span.high and trial.place(run, run.kernels, inner):
                return 1
    return 0


def _first(runs: Sequence[KernelBatch], count: int) -> list[tuple[Shape, int]]:
    """The shapes of the first `count` kernels of these runs."""
    shapes: Counter[Shape] = Counter()
    for run in runs:
        taken = min(count, len(run.kernels))
        shapes[run.shape] += taken
        count -= taken
    return [(shape, taken) for shape, taken in shapes.items() if taken]
