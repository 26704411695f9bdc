"""One turn of one session in the reference scheduler: seats for what it needs, or none at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sokovan.domain.session import TopologyMode
from sokovan.scheduling.snapshot import KernelWorkload
from sokovan.scheduling.trace import Code
from tests.reference.choosing import Chooser
from tests.reference.domains import Domain, Network, by_preference
from tests.reference.machines import World
from tests.reference.queues import Queues
from tests.reference.work import Failure, Group, Seat, Work


@dataclass
class Stage:
    """Where turns take place."""

    world: World
    chooser: Chooser
    queues: Queues
    network: Network
    nominations: Mapping[str, str]

    def nominated(self, kernel: KernelWorkload) -> str | None:
        """Where a kernel is nominated to, by itself or by a reservation of an earlier cycle."""
        return kernel.nominated or self.nominations.get(kernel.kernel_id)

    def seat_bare(self, work: Work, kernel: KernelWorkload, domain: Domain, seats: Sequence[Seat]) -> str | None:
        """Take a place for a kernel that asks for nothing, and say where."""
        for inner in self._close_to_group(work, kernel, domain, seats):
            agent = self.chooser.now(kernel, inner.agents, self.nominated(kernel))
            if agent is not None:
                self.world.machines[agent].take(kernel)
                self.world.last = agent
                return agent
        return None

    def _close_to_group(
        self, work: Work, kernel: KernelWorkload, domain: Domain, seats: Sequence[Seat]
    ) -> list[Domain]:
        """The whole domain, or the parts of it that are close enough to a kernel group with a hard rule."""
        group = work.group_of(kernel)
        topology = None if group is None else work.session.partitions[group[0]].topology
        if topology is None or topology.mode is TopologyMode.SOFT:
            return [domain]
        around = work.agents(group) | {agent for other, agent in seats if work.group_of(other) == group}
        inner = self.network.inside(self.network.root, self.network.highest(topology) or 0, around)
        return sorted([d for d in inner if d.agents <= domain.agents], key=lambda d: (d.tier, d.name))


class Turn:
    """Afterwards `placed` and `reserved` are the seats that were found, and `failure` says why there are none."""

    def __init__(self, work: Work, stage: Stage, kernels: Sequence[KernelWorkload]) -> None:
        self._work, self._stage, self._kernels = work, stage, kernels
        self._grows = work.ready()
        self._may_reserve = True
        self._short: KernelWorkload | None = None
        self._refusal: Code | None = None
        self._impossible = False
        self.placed: list[Seat] = []
        self.reserved: list[Seat] = []
        self.bare: list[Seat] = []
        self.failure: Failure | None = None

    def take(self) -> bool:
        """Find seats; if there are not enough, the world is as it was."""
        work = self._work
        close = work.session.topology is not None or bool(work.groups())
        if self._in_domains() if close else self._in_domain(self._stage.network.root):
            return True
        self.failure = self._why()
        return False

    def seated(self) -> list[KernelWorkload]:
        """The kernels that have a seat, now or later."""
        return [kernel for kernel, _ in (*self.placed, *self.reserved)]

    def _why(self) -> Failure:
        close = self._work.session.topology is not None or bool(self._work.groups())
        if self._impossible:
            return Failure(Code.TOPOLOGY_IMPOSSIBLE, vague=bool(self._work.groups()))
        if self._refusal is not None and self._short is None:
            return Failure(self._refusal, short=self._work.waiting[0], vague=close)
        return Failure(short=self._short or self._kernels[0], vague=close)

    def _in_domains(self) -> bool:
        """Room that is free now in any domain comes before room that is being released."""
        network, topology = self._stage.network, self._work.session.topology
        domains = [network.root]
        if topology is not None:
            highest = network.highest(topology)
            if highest is None:
                self._impossible = True
                return False
            domains = network.inside(network.root, highest, self._work.agents())
        demand = self._kernels[: 1 if self._grows else self._work.missing()]
        for later in (False, True):
            self._may_reserve = later
            for domain in by_preference(domains, self._stage.world, demand):
                if self._in_domain(domain):
                    return True
        return False

    def _in_domain(self, domain: Domain) -> bool:
        saved, placed, reserved = self._stage.world.copied(), list(self.placed), list(self.reserved)
        if self._work.groups():
            self._fill_groups(domain)
        else:
            self._fill(domain)
        if self._enough() and self._seat_bare(domain):
            return True
        self._stage.world.restore(saved)
        self.placed, self.reserved = placed, reserved
        return False

    def _enough(self) -> bool:
        """Ready with what is placed, or at least with what is promised."""
        return bool(self.seated()) and self._work.ready(self.seated() if self._may_reserve else self._started())

    def _seat_bare(self, domain: Domain) -> bool:
        """Where the session relies on kernels that ask for nothing, they find a place, or it does not start."""
        work, stage = self._work, self._stage
        if self._stands(work.bare):
            return True
        for kernel in work.bare:
            agent = stage.seat_bare(work, kernel, domain, [*self.placed, *self.bare, *self.reserved])
            if agent is not None:
                self.bare.append((kernel, agent))
        placed = [kernel.kernel_id for kernel, _ in self.bare]
        if self._stands([kernel for kernel in work.bare if kernel.kernel_id not in placed]):
            return True
        self._short = self._short or work.bare[0]
        self.bare = []
        return False

    def _stands(self, lacking: Sequence[KernelWorkload]) -> bool:
        """Whether the session would run without these kernels that ask for nothing."""
        work, every = self._work, self._work.bare
        gone = [kernel.kernel_id for kernel in lacking]
        work.bare = [kernel for kernel in every if kernel.kernel_id not in gone]
        answer = work.ready(self.seated())
        work.bare = every
        return answer

    def _started(self) -> list[KernelWorkload]:
        return [kernel for kernel, _ in self.placed]

    def _fill(self, domain: Domain) -> None:
        """Kernels in their order until the session is ready; one that fits nowhere is passed over if it may be."""
        if not self._fill_minimums(domain):
            return
        work, rest = self._work, self._left()
        for index, kernel in enumerate(rest):
            if not self._wants(self._started()):
                return
            seated = self._seat(kernel, domain, reserve=self._wants(self.seated()))
            if not seated and not work.ready([*self.seated(), *rest[index + 1 :]]):
                return
            if self.seated() and work.ready(self._started()):
                return

    def _wants(self, kernels: Sequence[KernelWorkload]) -> bool:
        """Whether the minimum is not met with these kernels; a growing session wants one."""
        return not kernels or self._work.counted() + len(kernels) < self._work.minimum

    def _fill_minimums(self, domain: Domain) -> bool:
        """The groups that have a minimum get it before anybody gets more."""
        for group, least in sorted(self._work.session.group_minimums.items()):
            lacking = least - sum(1 for kernel in self._work.present() if kernel.group == group)
            for kernel in [kernel for kernel in self._kernels if kernel.group == group]:
                if lacking > 0:
                    lacking -= self._seat(kernel, domain, reserve=True)
            if lacking > 0:
                return False
        return True

    def _seat(self, kernel: KernelWorkload, domain: Domain, *, reserve: bool) -> bool:
        """A seat for one kernel: now, or else later."""
        stage, queue = self._stage, str(self._work.session.queue)
        refusal = stage.queues.refusal(queue, kernel, self.seated())
        if refusal is not None:
            self._refusal = self._refusal or refusal
            return False
        nominated = stage.nominated(kernel)
        agent = stage.chooser.now(kernel, domain.agents, nominated)
        if agent is not None:
            stage.world.machines[agent].take(kernel)
            stage.world.last = agent
            self.placed.append((kernel, agent))
            return True
        self._short = self._short or kernel
        agent = stage.chooser.later(kernel, domain.agents, nominated) if reserve and self._may_reserve else None
        if agent is None:
            return False
        stage.world.machines[agent].promise(kernel)
        stage.world.last = agent
        self.reserved.append((kernel, agent))
        return True

    def _fill_groups(self, domain: Domain) -> None:
        """Kernel groups one after another, each close by its own rule, until the session is ready."""
        failed: list[Group | None] = []
        while True:
            left = [kernel for kernel in self._left() if self._work.group_of(kernel) not in failed]
            if not left:
                return
            group = min((self._work.group_of(kernel) for kernel in left), key=self._urgency)
            if not self._fill_group(group, domain):
                failed.append(group)
            elif self._grows or self._work.ready(self._started()):
                return

    def _left(self) -> list[KernelWorkload]:
        used = {kernel.kernel_id for kernel in self.seated()}
        return [kernel for kernel in self._kernels if kernel.kernel_id not in used]

    def _urgency(self, group: Group | None) -> tuple[object, ...]:
        """Groups that are demanded, then other unready ones, then ready ones, then kernels of no group."""
        groups = self._work.groups()
        if group is None:
            return (True, True, len(groups))
        ready = self._work.group_ready(group, self.seated())
        return (group not in self._demanded(), ready, groups.index(group))

    def _demanded(self) -> list[Group]:
        """The first unready groups of each partition, as many as it lacks."""
        demanded = []
        for number, partition in enumerate(self._work.session.partitions):
            mine = [group for group in self._work.groups() if group[0] == number]
            unready = [group for group in mine if not self._work.group_ready(group, self.seated())]
            demanded.extend(unready[: max(0, partition.min_groups - (len(mine) - len(unready)))])
        return demanded

    def _fill_group(self, group: Group | None, domain: Domain) -> bool:
        """So many kernels of one group as make it ready, in the lowest domain that its own rule allows."""
        work, network = self._work, self._stage.network
        kernels = [kernel for kernel in self._left() if work.group_of(kernel) == group]
        count = max(1, self._owed(group), self._lacking(group))
        if len(kernels) < count:
            return False
        topology = None if group is None else work.session.partitions[group[0]].topology
        if topology is None:
            return self._fill_exactly(kernels, count, domain)
        highest = network.highest(topology)
        if highest is None:
            self._impossible = True
            return False
        around = work.agents(group) | {a for k, a in (*self.placed, *self.reserved) if work.group_of(k) == group}
        domains = network.inside(domain, highest, around)
        ordered = by_preference(domains, self._stage.world, kernels[:count])
        return any(self._fill_exactly(kernels, count, inner) for inner in ordered)

    def _lacking(self, group: Group | None) -> int:
        if group is None:
            return 0
        present = [*self._work.present(), *self.seated()]
        mine = sum(1 for kernel in present if self._work.group_of(kernel) == group)
        return self._work.session.partitions[group[0]].size - mine

    def _owed(self, group: Group | None) -> int:
        """How many kernels must come from this group, as all the others together are too few."""
        missing = self._work.minimum - self._work.counted() - len(self.seated())
        return missing - sum(1 for kernel in self._left() if self._work.group_of(kernel) != group)

    def _fill_exactly(self, kernels: Sequence[KernelWorkload], count: int, domain: Domain) -> bool:
        """`count` of these kernels in one domain, or none."""
        saved, placed, reserved = self._stage.world.copied(), list(self.placed), list(self.reserved)
        for kernel in kernels:
            count -= self._seat(kernel, domain, reserve=True)
            if not count:
                return True
        self._stage.world.restore(saved)
        self.placed, self.reserved = placed, reserved
        return False
