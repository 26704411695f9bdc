"""One placement attempt in the reference scheduler: all that a session needs, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sokovan.domain.session import TopologyMode
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload
from sokovan.scheduling.trace import Code
from tests.reference.choosing import Chooser
from tests.reference.domains import Domain, Network, by_preference
from tests.reference.machines import ClusterState
from tests.reference.queues import Queues
from tests.reference.sessions import Group, PlacedKernel, Reason, WaitingSession


@dataclass
class CycleState:
    """The state that all attempts of a cycle share."""

    cluster: ClusterState
    chooser: Chooser
    queues: Queues
    network: Network
    nominations: Mapping[str, str]
    prefer_lower_tier: bool = False
    best_effort_max: int = 0
    best_effort: Counter[str] = field(default_factory=Counter)  # kernels without slots, by user

    def best_effort_left(self, session: SessionWorkload) -> int:
        """How many more kernels without slots the user of a session may run."""
        if not session.session_type.is_charged:
            return len(session.kernels)
        return max(0, self.best_effort_max - self.best_effort[session.owner.user])

    def nominated(self, kernel: KernelWorkload) -> str | None:
        """The nominated agent of a kernel, its own or by a reservation of an earlier cycle."""
        return kernel.nominated or self.nominations.get(kernel.kernel_id)

    def place_best_effort(
        self, pending: WaitingSession, kernel: KernelWorkload, domain: Domain, others: Sequence[PlacedKernel]
    ) -> str | None:
        """Place a best-effort kernel, and return its agent."""
        for inner in self._close_to_group(pending, kernel, domain, others):
            agent = self.chooser.now(kernel, inner.agents, self.nominated(kernel))
            if agent is not None:
                self.cluster.machines[agent].take(kernel)
                self.cluster.last = agent
                return agent
        return None

    def _close_to_group(
        self, pending: WaitingSession, kernel: KernelWorkload, domain: Domain, others: Sequence[PlacedKernel]
    ) -> list[Domain]:
        """The whole domain, or the domains in it that a hard topology of the kernel group allows."""
        group = pending.group_of(kernel)
        topology = None if group is None else pending.session.partitions[group[0]].topology
        if topology is None or topology.mode is TopologyMode.SOFT:
            return [domain]
        around = pending.agents(group) | {agent for other, agent in others if pending.group_of(other) == group}
        inner = self.network.inside(self.network.root, self.network.highest(topology) or 0, around)
        return sorted([d for d in inner if d.agents <= domain.agents], key=lambda d: (d.tier, d.name))


class PlacementAttempt:
    """One attempt; the result is in `placed` and `reserved`, or in `reason`."""

    def __init__(
        self, pending: WaitingSession, cycle: CycleState, kernels: Sequence[KernelWorkload], *, may_reserve: bool
    ) -> None:
        self._pending, self._cycle, self._kernels = pending, cycle, kernels
        self._grows = pending.ready()
        self._may_reserve = may_reserve
        self._short: KernelWorkload | None = None
        self._refusal: Code | None = None
        self._impossible = False
        self.placed: list[PlacedKernel] = []
        self.reserved: list[PlacedKernel] = []
        self.best_effort: list[PlacedKernel] = []
        self._limited = False
        self.reason: Reason | None = None

    def take(self) -> bool:
        """Place the kernels; if they are not enough, the cluster is restored."""
        pending = self._pending
        close = pending.session.topology is not None or bool(pending.groups())
        if self._in_domains() if close else self._in_domain(self._cycle.network.root):
            return True
        self.reason = self._reason()
        return False

    def kernels(self) -> list[KernelWorkload]:
        """The kernels that are placed or reserved."""
        return [kernel for kernel, _ in (*self.placed, *self.reserved)]

    def _reason(self) -> Reason:
        close = self._pending.session.topology is not None or bool(self._pending.groups())
        if self._impossible:
            return Reason(Code.TOPOLOGY_IMPOSSIBLE, vague=bool(self._pending.groups()))
        if self._limited:
            return Reason(Code.BEST_EFFORT)
        if self._refusal is not None and self._short is None:
            return Reason(self._refusal, short=self._pending.waiting[0], vague=close)
        return Reason(short=self._short or self._kernels[0], vague=close)

    def _in_domains(self) -> bool:
        """Try room that is free now in any domain before room that is being released.

        A profile that prefers lower tiers tries both in a tier before the next one, and waits
        for a tier whose room is being released even if it may not reserve it.
        """
        network, topology = self._cycle.network, self._pending.session.topology
        domains = [network.root]
        if topology is not None:
            highest = network.highest(topology)
            if highest is None:
                self._impossible = True
                return False
            domains = network.inside(network.root, highest, self._pending.agents())
        demand = self._kernels[: 1 if self._grows else self._pending.missing()]
        may_reserve, lowest = self._may_reserve, self._cycle.prefer_lower_tier
        times = (False, True) if may_reserve or lowest else (False,)
        tiers = sorted({domain.tier for domain in domains}) if lowest else [0]
        for tier, later in [(tier, later) for tier in tiers for later in times]:
            self._may_reserve = later
            chosen = [domain for domain in domains if tier in {0, domain.tier}]
            for domain in by_preference(chosen, self._cycle.cluster, demand):
                saved = self._cycle.cluster.copy(), list(self.placed), list(self.reserved), list(self.best_effort)
                if self._in_domain(domain):
                    if later and not may_reserve:
                        self._restore(*saved)
                        return False
                    return True
        return False

    def _restore(
        self, cluster: ClusterState, placed: list[PlacedKernel], reserved: list[PlacedKernel], best: list[PlacedKernel]
    ) -> None:
        self._cycle.cluster.restore(cluster)
        self.placed, self.reserved, self.best_effort = placed, reserved, best

    def _in_domain(self, domain: Domain) -> bool:
        saved, placed, reserved = self._cycle.cluster.copy(), list(self.placed), list(self.reserved)
        if self._pending.groups():
            self._fill_groups(domain)
        else:
            self._fill(domain)
        if self._enough() and self._place_best_effort(domain):
            return True
        self._cycle.cluster.restore(saved)
        self.placed, self.reserved = placed, reserved
        return False

    def _enough(self) -> bool:
        """Ready with what is placed, or at least with what is reserved."""
        return bool(self.kernels()) and self._pending.ready(
            self.kernels() if self._may_reserve else self._placed_kernels()
        )

    def _place_best_effort(self, domain: Domain) -> bool:
        """Place the best-effort kernels that the session's minimum depends on."""
        pending, cycle = self._pending, self._cycle
        if self._ready_without(pending.best_effort):
            return True
        left = cycle.best_effort_left(pending.session)
        self._limited = self._limited or left < len(pending.best_effort)
        for kernel in pending.best_effort:
            if len(self.best_effort) >= left:
                break
            agent = cycle.place_best_effort(pending, kernel, domain, [*self.placed, *self.best_effort, *self.reserved])
            if agent is not None:
                self.best_effort.append((kernel, agent))
        placed = [kernel.kernel_id for kernel, _ in self.best_effort]
        if self._ready_without([kernel for kernel in pending.best_effort if kernel.kernel_id not in placed]):
            return True
        self._short = self._short or pending.best_effort[0]
        self.best_effort = []
        return False

    def _ready_without(self, lacking: Sequence[KernelWorkload]) -> bool:
        """Whether the session would run without these best-effort kernels."""
        pending, every = self._pending, self._pending.best_effort
        gone = [kernel.kernel_id for kernel in lacking]
        pending.best_effort = [kernel for kernel in every if kernel.kernel_id not in gone]
        answer = pending.ready(self.kernels())
        pending.best_effort = every
        return answer

    def _placed_kernels(self) -> list[KernelWorkload]:
        return [kernel for kernel, _ in self.placed]

    def _fill(self, domain: Domain) -> None:
        """Place kernels in order until the session is ready; skip one that fits no machine if it may be skipped."""
        if not self._fill_minimums(domain):
            return
        pending, rest = self._pending, self._left()
        for index, kernel in enumerate(rest):
            if not self._needs_more(self._placed_kernels()):
                return
            kernels = self._place(kernel, domain, reserve=self._needs_more(self.kernels()))
            if not kernels and not pending.ready([*self.kernels(), *rest[index + 1 :]]):
                return
            if self.kernels() and pending.ready(self._placed_kernels()):
                return

    def _needs_more(self, kernels: Sequence[KernelWorkload]) -> bool:
        """Whether the minimum is not met with these kernels; a growing session needs one."""
        return not kernels or self._pending.counted() + len(kernels) < self._pending.minimum

    def _fill_minimums(self, domain: Domain) -> bool:
        """Place the minimum of each group before any surplus."""
        for group, least in sorted(self._pending.session.group_minimums.items()):
            lacking = least - sum(1 for kernel in self._pending.present() if kernel.group == group)
            for kernel in [kernel for kernel in self._kernels if kernel.group == group]:
                if lacking > 0:
                    lacking -= self._place(kernel, domain, reserve=True)
            if lacking > 0:
                return False
        return True

    def _place(self, kernel: KernelWorkload, domain: Domain, *, reserve: bool) -> bool:
        """Place one kernel now, or else reserve room for it."""
        cycle, queue = self._cycle, self._pending.queue
        refusal = cycle.queues.refusal(queue, kernel, self.kernels())
        if refusal is not None:
            self._refusal = self._refusal or refusal
            return False
        nominated = cycle.nominated(kernel)
        agent = cycle.chooser.now(kernel, domain.agents, nominated)
        if agent is not None:
            cycle.cluster.machines[agent].take(kernel)
            cycle.cluster.last = agent
            self.placed.append((kernel, agent))
            return True
        self._short = self._short or kernel
        agent = cycle.chooser.later(kernel, domain.agents, nominated) if reserve and self._may_reserve else None
        if agent is None:
            return False
        cycle.cluster.machines[agent].reserve(kernel)
        cycle.cluster.last = agent
        self.reserved.append((kernel, agent))
        return True

    def _fill_groups(self, domain: Domain) -> None:
        """Place kernel groups one after another, by their own topology, until the session is ready."""
        failed: list[Group | None] = []
        while True:
            left = [kernel for kernel in self._left() if self._pending.group_of(kernel) not in failed]
            if not left:
                return
            group = min((self._pending.group_of(kernel) for kernel in left), key=self._urgency)
            if not self._fill_group(group, domain):
                failed.append(group)
            elif self._grows or self._pending.ready(self._placed_kernels()):
                return

    def _left(self) -> list[KernelWorkload]:
        used = {kernel.kernel_id for kernel in self.kernels()}
        return [kernel for kernel in self._kernels if kernel.kernel_id not in used]

    def _urgency(self, group: Group | None) -> tuple[object, ...]:
        """Required groups, then those with kernels of an unmet minimum, then unready ones; no group comes last."""
        groups = self._pending.groups()
        required = group in self._required_groups() if group is not None else bool(self._only_from(group))
        ready = group is None or self._pending.group_ready(group, self.kernels())
        position = len(groups) if group is None else groups.index(group)
        return (not required, not self._given_by(group), ready, position)

    def _required_groups(self) -> list[Group]:
        """Groups that an unmet minimum depends on, and unready groups of each partition, as many as it lacks."""
        required = [group for group in self._pending.groups() if self._only_from(group)]
        needed = list(required)
        for number, partition in enumerate(self._pending.session.partitions):
            mine = [group for group in self._pending.groups() if group[0] == number]
            mine.sort(key=lambda group: (group not in needed, -self._given_by(group)))
            unready = [group for group in mine if not self._pending.group_ready(group, self.kernels())]
            required.extend(unready[: max(0, partition.min_groups - (len(mine) - len(unready)))])
        return required

    def _fill_group(self, group: Group | None, domain: Domain) -> bool:
        """Place the kernels that make one group ready, in the lowest domain that its topology allows."""
        pending, network = self._pending, self._cycle.network
        left = [kernel for kernel in self._left() if pending.group_of(kernel) == group]
        only = self._first_of_each(left, self._only_from(group))
        more = [k for k in self._first_of_each(left, self._unmet()) if k not in only]
        rest = [*more, *(k for k in left if k not in only and k not in more)]
        kernels = [*only, *rest]
        count = max(1, len(only), self._required_from(group), self._lacking(group))
        if len(kernels) < count:
            return False
        topology = None if group is None else pending.session.partitions[group[0]].topology
        if topology is None:
            return self._fill_exactly(only, rest, count, domain)
        highest = network.highest(topology)
        if highest is None:
            self._impossible = True
            return False
        around = pending.agents(group) | {a for k, a in (*self.placed, *self.reserved) if pending.group_of(k) == group}
        domains = network.inside(domain, highest, around)
        ordered = by_preference(domains, self._cycle.cluster, kernels[:count])
        return any(self._fill_exactly(only, rest, count, inner) for inner in ordered)

    def _lacking(self, group: Group | None) -> int:
        if group is None:
            return 0
        present = [*self._pending.present(), *self.kernels()]
        mine = sum(1 for kernel in present if self._pending.group_of(kernel) == group)
        return self._pending.session.partitions[group[0]].size - mine

    def _required_from(self, group: Group | None) -> int:
        """How many kernels must come from this group because the others are too few."""
        missing = self._pending.minimum - self._pending.counted() - len(self.kernels())
        return missing - sum(1 for kernel in self._left() if self._pending.group_of(kernel) != group)

    def _unmet(self) -> dict[str, int]:
        """How many kernels of each group its minimum lacks."""
        have = [kernel.group for kernel in (*self._pending.present(), *self.kernels())]
        minimums = self._pending.session.group_minimums
        return {group: least - have.count(group) for group, least in minimums.items() if least > have.count(group)}

    def _only_from(self, group: Group | None) -> dict[str, int]:
        """How many kernels of each unmet minimum all other kernel groups are too few for."""
        others = [kernel.group for kernel in self._left() if self._pending.group_of(kernel) != group]
        return {name: n - others.count(name) for name, n in self._unmet().items() if n > others.count(name)}

    def _given_by(self, group: Group | None) -> int:
        """How many kernels of unmet minimums a kernel group has."""
        mine = [kernel for kernel in self._left() if self._pending.group_of(kernel) == group]
        return len(self._first_of_each(mine, self._unmet()))

    def _first_of_each(self, kernels: Sequence[KernelWorkload], counts: Mapping[str, int]) -> list[KernelWorkload]:
        """The first kernels of each group, so many of each."""
        seen: list[str] = []
        first = []
        for kernel in kernels:
            seen.append(kernel.group)
            if seen.count(kernel.group) <= counts.get(kernel.group, 0):
                first.append(kernel)
        return first

    def _fill_exactly(
        self, only: Sequence[KernelWorkload], rest: Sequence[KernelWorkload], count: int, domain: Domain
    ) -> bool:
        """Place `count` of these kernels in one domain, `only` among them, or none."""
        saved, placed, reserved = self._cycle.cluster.copy(), list(self.placed), list(self.reserved)
        if all(self._place(kernel, domain, reserve=True) for kernel in only):
            count -= len(only)
            for kernel in rest:
                count -= bool(count) and self._place(kernel, domain, reserve=True)
            if not count:
                return True
        self._cycle.cluster.restore(saved)
        self.placed, self.reserved = placed, reserved
        return False
