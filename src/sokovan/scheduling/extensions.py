"""The twenty-nine extension points of a scheduling cycle.

A plugin subclasses SchedulingPlugin and overrides the points it needs; all others
keep the engine's behaviour. `POINTS` maps each to its name in Volcano, and says how
the answers of several plugins are combined. A plugin that raises is isolated: the
session at hand gets a verdict that names the plugin, and the cycle continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload


class QueueView(NamedTuple):
    """A queue as plugins see it."""

    name: str
    share: int
    priority: int
    weight: int
    allocated: Mapping[str, int]
    deserved: Mapping[str, int]


class GangView(NamedTuple):
    """The progress of a session (or one kernel group of it) in a placement attempt."""

    session: SessionWorkload
    group: str
    minimum: int
    running: int
    placed: int
    reserved: int


class DomainTrial(NamedTuple):
    """A HyperNode, and where a trial in it placed and reserved kernels, by agent."""

    domain: str
    placed: tuple[tuple[KernelId, AgentId], ...]
    reserved: tuple[tuple[KernelId, AgentId], ...]


class EvictableKernel(NamedTuple):
    """A running kernel that a session may evict, by the rules of the engine.

    `queue` is the one that its usage counts for; `lost_s` is the work that would be lost,
    in slot seconds.
    """

    session: SessionWorkload
    kernel: KernelWorkload
    queue: str
    lost_s: int


class Point(NamedTuple):
    """One extension point: its Volcano name, and how answers are combined."""

    volcano: str
    combines: str
    meaning: str


POINTS: dict[str, Point] = {
    "queue_order": Point("QueueOrderFn", "compared in turn", "which queue goes first; smallest first"),
    "session_order": Point("JobOrderFn", "compared in turn", "which session of a queue goes first"),
    "kernel_order": Point("TaskOrderFn", "compared in turn", "which kernel of a session goes first"),
    "group_order": Point("SubJobOrderFn", "compared in turn", "which kernel group of a session goes first"),
    "overused": Point("Overused", "any", "whether a queue gets no more kernels in this cycle"),
    "allocatable": Point("Allocatable", "all", "whether a queue may take one more kernel"),
    "session_valid": Point("JobValid", "first objection", "why a session cannot be considered at all"),
    "session_enqueueable": Point("JobEnqueueable", "first objection", "why a session is not admitted to its queue now"),
    "session_enqueued": Point("JobEnqueued", "each is called", "nothing; a notice of a session that was admitted"),
    "pre_predicate": Point("PrePredicateFn", "first objection", "why a kernel cannot be placed on any agent"),
    "predicate": Point("PredicateForAllocateAction", "all", "whether a kernel may run on an agent"),
    "batch_agent_order": Point("BatchNodeOrderFn", "added", "a score for each candidate, all at once"),
    "agent_order_map": Point("NodeOrderMapFn", "reduced, then added", "a score for one candidate"),
    "agent_order_reduce": Point("NodeOrderReduceFn", "per plugin", "scales one plugin's scores to a common range"),
    "best_agent": Point("BestNodeFn", "first answer", "the candidate to take, regardless of scores"),
    "session_ready": Point("JobReady", "all", "whether a session may start with what is placed"),
    "session_pipelined": Point("JobPipelined", "all", "whether a session may hold its reservations"),
    "group_ready": Point("SubJobReady", "all", "whether a kernel group may start with what is placed"),
    "group_pipelined": Point("SubJobPipelined", "all", "whether a kernel group may hold its reservations"),
    "domains_for_session": Point("HyperNodeGradientForJobFn", "filtered in turn", "which HyperNodes a session may use"),
    "domains_for_group": Point(
        "HyperNodeGradientForSubJobFn", "filtered in turn", "which HyperNodes a kernel group may use"
    ),
    "domain_order": Point("HyperNodeOrderMapFn", "added", "a score for each HyperNode of a tier; fullness breaks ties"),
    "trial_order": Point(
        "HyperNodeOrderMapFn", "added", "a score for each HyperNode of a tier by a trial in it, before `domain_order`"
    ),
    "session_starving": Point("JobStarving", "all", "whether a session below its minimum may evict others"),
    "preemptive": Point("PreemptiveFn", "all", "whether a queue may reclaim for a session"),
    "preemptable": Point("PreemptableFn", "filtered in turn", "which kernels of its queue a session may preempt"),
    "reclaimable": Point("ReclaimableFn", "filtered in turn", "which kernels of other queues a session may reclaim"),
    "evictable": Point("UnifiedEvictableFn", "filtered in turn", "which kernels any action may take for a session"),
    "victim_queue_order": Point("VictimQueueOrderFn", "compared in turn", "which queue gives first; smallest first"),
}
# Those that only the actions preempt, reclaim and consolidate ask.
EVICTION_POINTS = tuple(list(POINTS)[-6:])


class SchedulingPlugin:
    """Base of engine plugins. Every method here is one extension point."""

    name: ClassVar[str] = ""

    def queue_order(self, queue: QueueView) -> tuple[int, ...]:
        """A key that comes before share, priority and name."""
        del queue
        return ()

    def session_order(self, session: SessionWorkload) -> tuple[int, ...]:
        """A key that comes after priority and before the sequencer's order."""
        del session
        return ()

    def kernel_order(self, kernel: KernelWorkload) -> tuple[int, ...]:
        """A key that comes before priority, size and index."""
        del kernel
        return ()

    def group_order(self, session: SessionWorkload, group: str) -> tuple[int, ...]:
        """A key that orders kernel groups of equal urgency."""
        del session, group
        return ()

    def overused(self, queue: QueueView) -> bool:
        """True ends the cycle for the queue."""
        del queue
        return False

    def allocatable(self, queue: QueueView, kernel: KernelWorkload) -> bool:
        """False keeps the kernel out of the queue for now."""
        del queue, kernel
        return True

    def session_valid(self, session: SessionWorkload) -> str | None:
        """Why the session cannot be considered, as a sentence; None if it can."""
        del session
        return None

    def session_enqueueable(self, session: SessionWorkload, queue: QueueView) -> str | None:
        """Why the session is not admitted to its queue, as a sentence; None if it is.

        The minimum of every session that was admitted before in this cycle counts as
        allocated to its queue.
        """
        del session, queue
        return None

    def session_enqueued(self, session: SessionWorkload, queue: QueueView) -> None:
        """Called for each session that is admitted, with its minimum counted in the queue."""
        del session, queue

    def pre_predicate(self, session: SessionWorkload, kernel: KernelWorkload) -> str | None:
        """Why the kernel cannot be placed, as a sentence; None if it can."""
        del session, kernel
        return None

    def predicate(self, kernel: KernelWorkload, agent: AgentInfo) -> bool:
        """Whether the kernel may run on the agent."""
        del kernel, agent
        return True

    def batch_agent_order(self, kernel: KernelWorkload, agents: Sequence[AgentInfo]) -> Sequence[int] | None:
        """A score per agent, higher is better; None to abstain."""
        del kernel, agents
        return None

    def agent_order_map(self, kernel: KernelWorkload, agent: AgentInfo) -> int | None:
        """A raw score for one agent; None to abstain."""
        del kernel, agent
        return None

    def agent_order_reduce(self, kernel: KernelWorkload, scores: Mapping[str, int]) -> Mapping[str, int]:
        """This plugin's raw scores, scaled to a common range."""
        del kernel
        return scores

    def best_agent(self, kernel: KernelWorkload, scores: Mapping[str, int]) -> str | None:
        """The agent to take; None to leave it to the scores."""
        del kernel, scores
        return None

    def session_ready(self, gang: GangView) -> bool:
        """False keeps a session from starting with what is placed."""
        del gang
        return True

    def session_pipelined(self, gang: GangView) -> bool:
        """False keeps a session from holding a reservation."""
        del gang
        return True

    def group_ready(self, gang: GangView) -> bool:
        """False keeps a kernel group from counting as ready."""
        del gang
        return True

    def group_pipelined(self, gang: GangView) -> bool:
        """False keeps a kernel group from holding a reservation."""
        del gang
        return True

    def domains_for_session(self, session: SessionWorkload, domains: Sequence[str]) -> Sequence[str]:
        """The HyperNodes of one tier that the session may use."""
        del session
        return domains

    def domains_for_group(self, session: SessionWorkload, group: str, domains: Sequence[str]) -> Sequence[str]:
        """The HyperNodes of one tier that the kernel group may use."""
        del session, group
        return domains

    def domain_order(self, session: SessionWorkload, domains: Sequence[str]) -> Sequence[int] | None:
        """A score per HyperNode, higher first; fullness breaks ties. None to abstain."""
        del session, domains
        return None

    def trial_order(self, session: SessionWorkload, trials: Sequence[DomainTrial]) -> Sequence[int] | None:
        """A score per trial, higher first; their given order breaks ties. None to abstain.

        The best HyperNodes of a tier are tried, at most eight, and only those that hold the
        session are compared.
        """
        del session, trials
        return None

    def session_starving(self, gang: GangView) -> bool:
        """False keeps a session below its minimum from evicting others."""
        del gang
        return True

    def preemptive(self, queue: QueueView, session: SessionWorkload) -> bool:
        """False keeps a queue from reclaiming for the session.

        What it lends comes back all the same.
        """
        del queue, session
        return True

    def preemptable(self, taker: SessionWorkload, victims: Sequence[EvictableKernel]) -> Sequence[EvictableKernel]:
        """The kernels of its own queue that the session may preempt."""
        del taker
        return victims

    def reclaimable(self, taker: SessionWorkload, victims: Sequence[EvictableKernel]) -> Sequence[EvictableKernel]:
        """The kernels of other queues that the session may reclaim."""
        del taker
        return victims

    def evictable(
        self, taker: SessionWorkload, action: str, victims: Sequence[EvictableKernel]
    ) -> Sequence[EvictableKernel]:
        """The kernels that an action may take for the session.

        `action` is preempt, reclaim or consolidate.
        """
        del taker, action
        return victims

    def victim_queue_order(self, taker: QueueView, giver: QueueView) -> tuple[int, ...]:
        """A key of a queue that gives, before its distance and priority.

        The largest of a set counts.
        """
        del taker, giver
        return ()


class PluginFailed(Exception):
    """A plugin raised; turned into a verdict inside the cycle."""

    def __init__(self, plugin: str, point: str, error: Exception) -> None:
        self.plugin, self.point, self.error = plugin, point, error
        super().__init__(f"plugin {plugin} failed in {point}: {type(error).__name__}: {error}")


class Extensions:
    """The plugins of a cycle, by the points that they override."""

    def __init__(self, plugins: Iterable[SchedulingPlugin] = ()) -> None:
        self._at: dict[str, list[SchedulingPlugin]] = {point: [] for point in POINTS}
        for plugin in plugins:
            for point in POINTS:
                if getattr(type(plugin), point) is not getattr(SchedulingPlugin, point):
                    self._at[point].append(plugin)

    def at(self, point: str) -> list[SchedulingPlugin]:
        """The plugins that override a point."""
        return self._at[point]

    def call_all(self, point: str, *arguments: Any) -> list[Any]:
        """The answers of all plugins at a point. Raises PluginFailed."""
        return [self.call(plugin, point, *arguments) for plugin in self._at[point]]

    def objector(self, point: str, *arguments: Any) -> str | None:
        """The name of the first plugin that objects. Raises PluginFailed."""
        for plugin in self._at[point]:
            if self.call(plugin, point, *arguments) is _OBJECTION[point]:
                return name_of(plugin)
        return None

    def call(self, plugin: SchedulingPlugin, point: str, *arguments: Any) -> Any:
        """One answer, converted to the type of the point. Raises PluginFailed."""
        try:
            return _ANSWERS[point](getattr(plugin, point)(*arguments), arguments)
        except Exception as error:
            raise PluginFailed(name_of(plugin), point, error) from error


def name_of(plugin: SchedulingPlugin) -> str:
    """The name of a plugin in verdicts."""
    return plugin.name or type(plugin).__name__


def _key(answer: Any, _: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(int(number) for number in answer)


def _flag(answer: Any, _: tuple[Any, ...]) -> bool:
    return bool(answer)


def _sentence(answer: Any, _: tuple[Any, ...]) -> str | None:
    return None if answer is None else str(answer)


def _nothing(_: Any, __: tuple[Any, ...]) -> None:
    """A notice has no answer."""


def _scores(answer: Any, arguments: tuple[Any, ...]) -> list[int] | None:
    """One score per item of the last argument."""
    if answer is None:
        return None
    scores = [int(number) for number in answer]
    if len(scores) != len(arguments[-1]):
        raise ValueError(f"{len(scores)} scores for {len(arguments[-1])}")
    return scores


def _score(answer: Any, _: tuple[Any, ...]) -> int | None:
    return None if answer is None else int(answer)


def _reduced(answer: Any, arguments: tuple[Any, ...]) -> dict[str, int]:
    return {name: int(answer[name]) for name in arguments[-1] if name in answer}


def _agent(answer: Any, _: tuple[Any, ...]) -> str | None:
    return None if answer is None else str(answer)


def _names(answer: Any, arguments: tuple[Any, ...]) -> list[str]:
    """The names of the last argument that the answer keeps, in their order."""
    kept = set(answer)
    return [name for name in arguments[-1] if name in kept]


def _positions(answer: Any, arguments: tuple[Any, ...]) -> list[int]:
    """The positions of the victims that the answer keeps, in their order."""
    kept = {victim.kernel.kernel_id for victim in answer}
    return [position for position, victim in enumerate(arguments[-1]) if victim.kernel.kernel_id in kept]


_ANSWERS: dict[str, Callable[[Any, tuple[Any, ...]], Any]] = {
    "queue_order": _key,
    "session_order": _key,
    "kernel_order": _key,
    "group_order": _key,
    "overused": _flag,
    "allocatable": _flag,
    "session_valid": _sentence,
    "session_enqueueable": _sentence,
    "session_enqueued": _nothing,
    "pre_predicate": _sentence,
    "predicate": _flag,
    "batch_agent_order": _scores,
    "agent_order_map": _score,
    "agent_order_reduce": _reduced,
    "best_agent": _agent,
    "session_ready": _flag,
    "session_pipelined": _flag,
    "group_ready": _flag,
    "group_pipelined": _flag,
    "domains_for_session": _names,
    "domains_for_group": _names,
    "domain_order": _scores,
    "trial_order": _scores,
    "session_starving": _flag,
    "preemptive": _flag,
    "preemptable": _positions,
    "reclaimable": _positions,
    "evictable": _positions,
    "victim_queue_order": _key,
}
_OBJECTION = {"overused": True, "allocatable": False}
