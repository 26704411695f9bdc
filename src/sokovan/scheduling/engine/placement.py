"""PlacementAttempt: finds agents for the kernels that one session needs now.

Takes a PendingSession, the CycleContext and a Statement. Gives True with the kernels
placed or reserved on the Statement, or False with the Statement unchanged and
`reason` set. Without a topology constraint all agents are tried at once; with one,
HyperNodes are tried tier by tier, and kernel groups inside each HyperNode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from sokovan.domain.cluster.topology import ROOT
from sokovan.domain.ids import AgentId
from sokovan.domain.session import TopologyMode
from sokovan.scheduling.engine.gang import CycleContext, KernelPlacer
from sokovan.scheduling.engine.pending_session import (
    NO_AGENT,
    NO_GROUP,
    KernelBatch,
    PendingReason,
    PendingSession,
    UnmetMinimums,
)
from sokovan.scheduling.engine.shapes import Shape
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.engine.topology_search import Demand, Tier
from sokovan.scheduling.extensions import DomainTrial, GangView
from sokovan.scheduling.snapshot import KernelWorkload
from sokovan.scheduling.trace import Code

# Trials per tier and session: each costs as much as a placement.
TRIALS_MAX = 8


class PlacementAttempt:
    """One attempt to place one session; the Statement holds the result."""

    def __init__(
        self,
        pending: PendingSession,
        context: CycleContext,
        statement: Statement,
        *,
        may_reserve: bool = True,
        released: bool = False,
    ) -> None:
        self._pending, self._context, self._statement = pending, context, statement
        self._placer = KernelPlacer(pending, context, statement)
        self._may_reserve = self._placer.may_reserve = may_reserve
        # With `released`, room that is being released is as good as free room, for best-effort kernels as well.
        self._released = self._placer.reserves_best_effort = released
        self._grows = pending.grows()
        self._batches = pending.batches
        self._limited = False  # whether the owner may run fewer best-effort kernels than the session has
        self.reason: PendingReason | None = None

    def run(self) -> bool:
        """Place or reserve what the session needs now; False if it does not fit."""
        self._batches = self._allowed_batches()
        if self._pending.session.topology is not None or self._pending.kernel_groups:
            found = self._search_hypernodes()
        else:
            found = self._try_agents(self._context.all_agents, later=self._may_reserve)
        if not found:
            self.reason = self.reason or self._room_reason()
        return found

    def _try_agents(self, agents: range, *, later: bool, hypernode: str = ROOT) -> bool:
        """Try the session on a range of agents; rolled back if it does not become ready there."""

        def fill() -> bool:
            if self._pending.kernel_groups:
                self._fill_kernel_groups(hypernode, later=later)
            else:
                self._placer.fill(self._batches, agents)
            if self._enough(later=later) and self._place_best_effort(agents):
                return True
            self._pending.kernels_fit = max(self._pending.kernels_fit, len(self._statement.placed))
            return False

        return self._statement.attempt(fill)

    def _allowed_batches(self) -> list[KernelBatch]:
        """The kernels that neither an owner's limit nor a plugin excludes from this attempt."""
        extensions, pending = self._context.extensions, self._pending
        batches = pending.batches
        if pending.excluded_shapes:
            batches = [batch for batch in batches if batch.shape not in pending.excluded_shapes]
        if extensions.at("allocatable"):
            self._placer.refused_by_plugin = self._refused_by_plugin
        if not extensions.at("pre_predicate"):
            return batches
        kept = []
        for batch in batches:
            answers = extensions.call_all("pre_predicate", pending.session, batch.kernels[0])
            objection = next((answer for answer in answers if answer is not None), None)
            if objection is None:
                kept.append(batch)
            else:
                self.reason = self.reason or PendingReason(Code.REFUSED_BY_PLUGIN, objection)
        return kept

    def _refused_by_plugin(self, kernel: KernelWorkload, extra: list[int] | None) -> bool:
        """Whether a plugin keeps a kernel out of its queue, given what the statement holds."""
        node = self._pending.node
        view = self._context.queue_usage.view(node, extra=extra)
        name = self._context.extensions.objector("allocatable", view, kernel)
        if name is not None:
            text = f"plugin {name} keeps kernel {kernel.kernel_id} out of queue {node.name}"
            self.reason = self.reason or PendingReason(Code.REFUSED_BY_PLUGIN, text)
        return name is not None

    def _place_best_effort(self, agents: range) -> bool:
        """Place the best-effort kernels that the session's minimum depends on."""
        pending = self._pending
        found = [batch for batch, _, _ in self._statement.kernels]
        if not pending.best_effort or pending.ready_without(found, pending.best_effort):
            return True
        left, lacking = self._context.best_effort_left(pending.session), []
        self._limited = self._limited or left < len(pending.best_effort)
        for batch in pending.best_effort:
            if left and self._placer.place_best_effort(batch, agents):
                left -= 1
            else:
                lacking.append(batch)
        return pending.ready_without(found, lacking)

    def _enough(self, *, later: bool) -> bool:
        """Whether the session may start with what is placed, or (`later`) wait for what is reserved."""
        pending, statement = self._pending, self._statement
        if not statement.placed and not statement.reserved:
            return False
        if pending.ready_with(statement.placed):
            return self._plugins_agree("session_ready", self._view())
        return (
            later and pending.ready_with(statement.kernels) and self._plugins_agree("session_pipelined", self._view())
        )

    def _plugins_agree(self, point: str, view: GangView) -> bool:
        return all(self._context.extensions.call_all(point, view))

    def _view(self, index: int = NO_GROUP) -> GangView:
        """The progress of the session, or of one kernel group of it."""
        pending, placed, reserved = self._pending, self._statement.placed, self._statement.reserved
        if index == NO_GROUP:
            return GangView(pending.session, "", pending.minimum, pending.have, len(placed), len(reserved))
        group = pending.kernel_groups[index]
        counts = [sum(1 for batch, _, _ in kernels if batch.kernel_group == index) for kernels in (placed, reserved)]
        return GangView(pending.session, group.value, group.size, group.have, *counts)

    def _room_reason(self) -> PendingReason:
        pending, refusal = self._pending, self._placer.refusal
        if self._limited:
            return self._context.best_effort_limit(pending.session)
        topology = pending.session.topology is not None or any(group.topology for group in pending.kernel_groups)
        if refusal is not None and self._placer.misfit is None:
            return PendingReason(refusal.code, shape=pending.batches[0].shape, topology=topology, refusal=refusal)
        return PendingReason(None, shape=self._placer.misfit or pending.batches[0].shape, topology=topology)

    def _search_hypernodes(self) -> bool:
        """Try HyperNodes, with room that is free now and then with room that is being released.

        By default, free room in any allowed tier comes before released room in any. If the
        profile prefers lower tiers, both are tried in a tier before the next higher one, and
        an attempt that may not reserve ends where it would have to: a holder of a reservation
        would otherwise start in a higher tier in the next cycle.
        """
        pending, topology = self._pending, self._context.topology
        tiers = [topology.root()]
        if pending.session.topology is not None:
            limit = topology.tier_limit(pending.session.topology)
            tiers = topology.tiers(limit, inside=ROOT, agents=pending.agents)
            problem = limit.problem
            if NO_AGENT in pending.agents and pending.session.topology.mode is TopologyMode.HARD:
                problem = "a running kernel is on an agent that no longer exists, so its HyperNode is unknown"
            if problem:
                self.reason = PendingReason(Code.TOPOLOGY_IMPOSSIBLE, problem)
                return False
        demand, whole = self._demand()
        lowest = self._context.prefer_lower_tier
        times = (False, True) if (self._may_reserve or lowest) and self._context.workspace.releases else (False,)
        times = (True,) if self._released else times
        if lowest:
            steps = [(tier, later) for tier in tiers for later in times]
        else:
            steps = [(tier, later) for later in times for tier in tiers]
        for tier, later in steps:
            self._placer.may_reserve = later

            def attempt(name: str, later: bool = later) -> bool:  # noqa: FBT001  # bound to this step
                return self._try_agents(topology.agents(name), later=later, hypernode=name)

            names = self._candidates(tier, demand, whole=whole, later=later)
            if later and not self._may_reserve:
                if self._would_fit(names, attempt):
                    return False
            elif any(attempt(name) for name in self._by_trial(names, attempt)):
                return True
        return False

    def _would_fit(self, names: Sequence[str], attempt: Callable[[str], bool]) -> bool:
        """Whether the session fits one of these HyperNodes; nothing stays placed or reserved."""
        found = False

        def trial() -> bool:
            nonlocal found
            found = any(attempt(name) for name in names)
            return False

        self._statement.attempt(trial)
        return found

    def _by_trial(self, names: list[str], attempt: Callable[[str], bool]) -> list[str]:
        """The HyperNodes in the order to take them, if plugins score trials; else as given.

        The first TRIALS_MAX are tried and rolled back; those that fail are left out.
        """
        extensions, statement, ids = self._context.extensions, self._statement, self._context.workspace.ids
        if not extensions.at("trial_order") or len(names) < 2:
            return names
        trials: list[DomainTrial] = []
        for name in names[:TRIALS_MAX]:
            placed, reserved = len(statement.placed), len(statement.reserved)

            def trial(name: str = name, placed: int = placed, reserved: int = reserved) -> bool:
                if attempt(name):
                    new = (statement.placed[placed:], statement.reserved[reserved:])
                    pairs = (tuple((kernel.kernel_id, AgentId(ids[at])) for _, kernel, at in part) for part in new)
                    trials.append(DomainTrial(name, *pairs))
                return False

            statement.attempt(trial)
        scores: Counter[str] = Counter()
        for answer in extensions.call_all("trial_order", self._pending.session, trials) if trials else ():
            if answer is not None:
                scores.update({one.domain: score for one, score in zip(trials, answer, strict=True)})
        best = sorted((one.domain for one in trials), key=lambda domain: -scores[domain])
        return [*best, *names[TRIALS_MAX:]]

    def _candidates(
        self, tier: Tier, demand: Demand, *, whole: bool, later: bool, group: str | None = None
    ) -> list[str]:
        """The HyperNodes of a tier to try, in order, after the plugins' filters and scores."""
        names = self._context.topology.candidates(tier, demand, whole=whole, later=later)
        extensions, session = self._context.extensions, self._pending.session
        point = "domains_for_session" if group is None else "domains_for_group"
        for plugin in extensions.at(point):
            arguments = (session, names) if group is None else (session, group, names)
            names = extensions.call(plugin, point, *arguments)
        scores: Counter[str] = Counter()
        for answer in extensions.call_all("domain_order", session, names):
            if answer is not None:
                scores.update(dict(zip(names, answer, strict=True)))
        return sorted(names, key=lambda name: -scores[name]) if scores else names

    def _demand(self) -> tuple[list[tuple[Shape, int]], bool]:
        """The kernels that one HyperNode must hold in this attempt, and whether it must hold all of them."""
        pending = self._pending
        need = 1 if self._grows else pending.need()
        kinds = {batch.shape for batch in pending.batches}
        whole = not pending.session.group_minimums and need >= pending.waiting and not self._grows
        return _first_shapes(pending.batches, need), whole or len(kinds) == 1

    def _fill_kernel_groups(self, hypernode: str, *, later: bool) -> None:
        """Place kernel groups one after another until the session is ready."""
        failed: set[int] = set()
        while (index := self._next_kernel_group(failed)) is not None:
            if not self._fill_kernel_group(index, hypernode, later=later):
                failed.add(index)
            elif self._grows or self._pending.ready_with(self._statement.placed):
                return

    def _next_kernel_group(self, failed: set[int]) -> int | None:
        """Required groups first, then those with kernels of an unmet minimum, unready ones, and ready ones."""
        pending, unmet = self._pending, self._unmet()
        have = Counter(batch.kernel_group for batch, _, _ in self._statement.kernels)
        left = self._kernels_left()
        ready = [group.have + have[index] >= group.size for index, group in enumerate(pending.kernel_groups)]
        required = {index for index in left if unmet.only_from(index)}
        for number, partition in enumerate(pending.session.partitions):
            members = [index for index, group in enumerate(pending.kernel_groups) if group.partition == number]
            members.sort(
                key=lambda index: (index not in required, self._group_key(index), -unmet.given_by(index), index)
            )
            lacking = partition.min_groups - sum(ready[index] for index in members)
            required.update([index for index in members if not ready[index]][: max(0, lacking)])
        indices = (*range(len(pending.kernel_groups)), NO_GROUP)
        return min(
            (index for index in indices if index not in failed and left[index]),
            key=lambda index: (
                index not in required, not unmet.given_by(index), index == NO_GROUP or ready[index],
                self._group_key(index), index == NO_GROUP, index,
            ),
            default=None,
        )  # fmt: skip

    def _unmet(self) -> UnmetMinimums:
        return UnmetMinimums(self._pending, self._batches, self._statement.kernels)

    def _group_key(self, index: int) -> tuple[object, ...]:
        if index == NO_GROUP or not self._context.extensions.at("group_order"):
            return ()
        value = self._pending.kernel_groups[index].value
        return tuple(self._context.extensions.call_all("group_order", self._pending.session, value))

    def _kernels_left(self) -> Counter[int]:
        """How many kernels of each kernel group are not on the statement yet."""
        left = Counter({batch.kernel_group: 0 for batch in self._batches})
        for batch in self._batches:
            left[batch.kernel_group] += len(batch.kernels)
        for batch, _, _ in self._statement.kernels:
            left[batch.kernel_group] -= 1
        return left

    def _fill_kernel_group(self, index: int, hypernode: str, *, later: bool) -> bool:
        """Place one kernel group inside a HyperNode, by the group's own topology."""
        topology = self._context.topology
        alone, rest = self._unmet().split(index, self._remaining(index))
        batches = [*alone, *rest]
        group = None if index == NO_GROUP else self._pending.kernel_groups[index]
        used = [agent for batch, _, agent in self._statement.kernels if batch.kernel_group == index]
        first = sum(len(batch.kernels) for batch in alone)
        size = 0 if group is None else group.size - group.have - len(used)
        count = max(1, first, size, self._required_from(index))
        if sum(len(batch.kernels) for batch in batches) < count:
            return False

        def attempt(name: str) -> bool:
            steps = ((alone, first), (rest, count - first))
            return self._try_kernel_group(steps, topology.agents(name), index=index)

        if group is None or group.topology is None:
            return attempt(hypernode)
        limit = topology.tier_limit(group.topology)
        if limit.problem:
            self.reason = PendingReason(Code.TOPOLOGY_IMPOSSIBLE, limit.problem)
            return False
        demand, whole = _first_shapes(batches, count), len({batch.shape for batch in batches}) == 1
        for tier in topology.tiers(limit, inside=hypernode, agents=[*group.agents, *used]):
            names = self._candidates(tier, demand, whole=whole, later=later, group=group.value)
            if any(attempt(name) for name in self._by_trial(names, attempt)):
                return True
        return False

    def _try_kernel_group(
        self, steps: Sequence[tuple[Sequence[KernelBatch], int]], agents: range, *, index: int
    ) -> bool:
        """Try kernels of one group, so many of each step, on a range of agents; rolled back if they do not fit."""
        reserved = len(self._statement.reserved)

        def fill() -> bool:
            if not all(self._placer.fill_exactly(batches, count, agents) for batches, count in steps):
                return False
            point = "group_pipelined" if len(self._statement.reserved) > reserved else "group_ready"
            return index == NO_GROUP or self._plugins_agree(point, self._view(index))

        return self._statement.attempt(fill)

    def _required_from(self, index: int) -> int:
        """How many kernels must come from this group because the others are too few for the minimum.

        They are placed together: a group with a topology of its own could not grow out
        of the HyperNode that its first kernel took.
        """
        missing = self._pending.minimum - self._pending.have - len(self._statement.kernels)
        others = sum(count for group, count in self._kernels_left().items() if group != index)
        return missing - others

    def _remaining(self, index: int) -> list[KernelBatch]:
        """The batches of one kernel group without the kernels that are on the statement."""
        used = {kernel.kernel_id for _, kernel, _ in self._statement.kernels}
        rest = []
        for batch in self._batches:
            if batch.kernel_group != index:
                continue
            kernels = [kernel for kernel in batch.kernels if kernel.kernel_id not in used]
            if kernels:
                rest.append(batch.part(kernels))
        return rest


def _first_shapes(batches: Sequence[KernelBatch], count: int) -> list[tuple[Shape, int]]:
    """The shapes of the first `count` kernels of these batches."""
    shapes: Counter[Shape] = Counter()
    for batch in batches:
        taken = min(count, len(batch.kernels))
        shapes[batch.shape] += taken
        count -= taken
    return [(shape, taken) for shape, taken in shapes.items() if taken]
