"""The reference of evictions: every subset of the victims of one taker is tried.

A set is enough if the reference scheduler starts the taker once the victims are gone and
nobody else waits. Queues deserve what is configured (policy `capacity`), so that a missing
victim changes no share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import combinations

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.topology import HyperNodeTree
from sokovan.domain.session import SessionType
from sokovan.domain.slots import ResourceSlot, total
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from tests.reference.scheduler import reference_schedule

Key = tuple[object, ...]


class EvictionReference:
    """The victims of one taker, by trying all sets."""

    def __init__(self, snapshot: SystemSnapshot, profile: SchedulingProfile, taker: SessionWorkload) -> None:
        self._snapshot, self._profile, self._taker = snapshot, profile, taker
        self._queues = {str(queue.name): queue for queue in snapshot.queues}
        self._reclaims = "reclaim" in profile.actions
        self._session_of = {k.kernel_id: s for s in snapshot.sessions for k in s.kernels}

    def best(self) -> tuple[Key, frozenset[str]] | None:
        """The cheapest legal set that is enough, with its key."""
        sets = [one for one in self._subsets(self.candidates()) if self.legal(one)]
        found: list[tuple[Key, frozenset[str]]] = []
        for victims in sorted(sets, key=self._cost):
            if found and self._cost(victims)[:-2] > found[0][0][:-2]:
                break
            tier = self.tier_with(victims)
            if tier is not None:
                cost = self._cost(victims)
                found.append(((*cost[:-2], tier, *cost[-2:]), frozenset(str(k.kernel_id) for k in victims)))
        return min(found, key=lambda item: item[0], default=None)

    def irreducible(self, victims: Collection[str]) -> bool:
        """Whether no legal proper subset is enough."""
        kernels = [kernel for kernel in self._running() if kernel.kernel_id in victims]
        smaller = [one for one in self._subsets(kernels) if len(one) < len(kernels)]
        return not any(self.legal(one) and self.tier_with(one) is not None for one in (*smaller, []))

    def _subsets(self, kernels: list[KernelWorkload]) -> Iterable[list[KernelWorkload]]:
        for count in range(1, len(kernels) + 1):
            for some in combinations(kernels, count):
                yield list(some)

    def _running(self) -> list[KernelWorkload]:
        return [k for s in self._snapshot.sessions for k in s.kernels if k.agent is not None and not k.releasing]

    def candidates(self) -> list[KernelWorkload]:
        """The kernels that the taker may evict one by one."""
        return [kernel for kernel in self._running() if self._may_go(kernel)]

    def _is_recalled(self, kernel: KernelWorkload) -> bool:
        """Whether a kernel runs on what the taker's queue lends."""
        return self._session_of[kernel.kernel_id].loan == self._taker.queue

    def _is_young(self, session: SessionWorkload) -> bool:
        """Whether a session, unless it returns a loan, runs for less than its queue's minimum."""
        if session.running_since_ms is None or session.loan == self._taker.queue:
            return False
        path = (self._queue(name).min_runtime_s for name in self._path(str(session.queue)))
        least = next((one for one in path if one is not None), 300 if self._reclaims else 60)
        return self._snapshot.now_ms - session.running_since_ms < least * 1000

    def _may_go(self, kernel: KernelWorkload) -> bool:
        victim, taker = self._session_of[kernel.kernel_id], self._taker
        running = [one for one in victim.kernels if one.agent is not None]
        if len(running) < victim.gang_size and self._is_young(victim):
            return False
        if victim is taker or not victim.preemptible or not kernel.preemptible:
            return False
        if victim.session_type is SessionType.SYSTEM or (kernel.slots and not any(k.slots for k in taker.kernels)):
            return False
        if self._is_recalled(kernel):
            return True
        if not self._reclaims:
            return victim.queue == taker.queue and max(victim.priority, kernel.priority) < taker.priority
        if victim.queue == taker.queue or not self._entitled():
            return False
        return self._queue(victim.charged).reclaimable and self._over(str(victim.charged), kernel, ())

    def _queue(self, name: str) -> Queue:
        return self._queues.get(name) or Queue(name=name)  # type: ignore[arg-type]  # names are plain text

    def _need(self) -> ResourceSlot:
        waiting = [kernel for kernel in self._taker.kernels if kernel.agent is None]
        running = len(self._taker.kernels) - len(waiting)
        return total(kernel.slots for kernel in waiting[: self._taker.gang_size - running])

    def _usage(self, queue: str, gone: Iterable[KernelWorkload]) -> ResourceSlot:
        gone_ids = {kernel.kernel_id for kernel in gone}
        return total(
            kernel.slots
            for kernel in self._running()
            if queue in self._path(str(self._session_of[kernel.kernel_id].charged)) and kernel.kernel_id not in gone_ids
        )

    def _path(self, queue: str) -> list[str]:
        path = [queue]
        while self._profile.hierarchy and self._queue(path[-1]).parent != "root":
            path.append(str(self._queue(path[-1]).parent))
        return path

    def _entitled(self) -> bool:
        """Whether the taker's queue would stay within what it deserves in one slot that is asked for."""
        queue, need = self._queue(str(self._taker.queue)), self._need()
        used = self._usage(str(self._taker.queue), ())
        return any(slot in queue.deserved and used[slot] + need[slot] <= queue.deserved[slot] for slot in need)

    def _over(self, queue: str, kernel: KernelWorkload, gone: Iterable[KernelWorkload]) -> bool:
        deserved, used, need = self._queue(queue).deserved, self._usage(queue, gone), self._need()
        named = [slot for slot in kernel.slots if slot in deserved]
        return any(
            slot in need and used[slot] > (deserved[slot] if slot in named else 0) for slot in named or kernel.slots
        )

    def legal(self, victims: list[KernelWorkload]) -> bool:
        """Whether all sessions keep their gangs or go whole, and queues their shares."""
        by_session = Counter(self._session_of[kernel.kernel_id].session_id for kernel in victims)
        gone = {kernel.kernel_id for kernel in victims}
        for session in self._snapshot.sessions:
            if session.session_id not in by_session:
                continue
            running = [k for k in session.kernels if k.agent is not None]
            kept = [k for k in running if k.kernel_id not in gone]
            may_end = not kept and not self._is_young(session)
            if not may_end and len(running) >= session.gang_size and not self._holds(session, kept):
                return False
        if not self._reclaims:
            return True
        others = [kernel for kernel in victims if not self._is_recalled(kernel)]
        return self._guaranteed(others) and self._in_some_order(self._units(others))

    @staticmethod
    def _holds(session: SessionWorkload, kept: list[KernelWorkload]) -> bool:
        groups = Counter(kernel.group for kernel in kept)
        leads = [kernel for kernel in session.kernels if kernel.leads and kernel.agent is not None]
        if any(kernel not in kept for kernel in leads):
            return False
        return len(kept) >= session.gang_size and all(groups[g] >= n for g, n in session.group_minimums.items())

    def _units(self, victims: list[KernelWorkload]) -> list[list[KernelWorkload]]:
        units = []
        for session in self._snapshot.sessions:
            mine = [kernel for kernel in victims if kernel in session.kernels]
            running = [kernel for kernel in session.kernels if kernel.agent is not None]
            if mine and len(mine) == len(running) >= session.gang_size:
                units.append(mine)
            else:
                units.extend([kernel] for kernel in mine)
        return units

    def _guaranteed(self, victims: list[KernelWorkload]) -> bool:
        need = self._need()
        for queue in {name for k in victims for name in self._path(str(self._session_of[k.kernel_id].charged))}:
            left = self._usage(queue, victims)
            released = {
                s for k in victims if queue in self._path(str(self._session_of[k.kernel_id].charged)) for s in k.slots
            }
            back = need if queue in self._path(str(self._taker.queue)) else ResourceSlot()
            if any(left[slot] + back[slot] < self._queue(queue).guarantee[slot] for slot in released):
                return False
        return True

    def _in_some_order(self, units: list[list[KernelWorkload]], gone: tuple[KernelWorkload, ...] = ()) -> bool:
        """Whether the units may be taken one by one, each while its queue is above its share."""
        if not units:
            return True
        for index, unit in enumerate(units):
            queue = str(self._session_of[unit[0].kernel_id].charged)
            rest = [*units[:index], *units[index + 1 :]]
            if any(self._over(queue, k, gone) for k in unit) and self._in_some_order(rest, (*gone, *unit)):
                return True
        return False

    def _lost(self, kernel: KernelWorkload) -> int:
        """The work that a kernel loses, in thousandths of slots times milliseconds."""
        session, now = self._session_of[kernel.kernel_id], self._snapshot.now_ms
        if session.running_since_ms is None:
            return 0
        assumed_ms = now - self._profile.eviction_options.assumed_checkpoint * 1000
        saved_ms = assumed_ms if session.checkpoint_ms is None else session.checkpoint_ms
        return kernel.slots["cpu"] * max(0, now - max(session.running_since_ms, saved_ms))

    def _cost(self, victims: list[KernelWorkload]) -> Key:
        sessions = [s for s in self._snapshot.sessions if any(k in victims for k in s.kernels)]
        ended = 0
        for session in sessions:
            running = [kernel for kernel in session.kernels if kernel.agent is not None]
            ended += all(kernel in victims for kernel in running) and len(running) >= session.gang_size
        mine = self._path(str(self._taker.queue))
        paths = [self._path(str(session.charged)) for session in sessions]
        distance = max(len(set(mine) ^ set(path)) for path in paths)
        priorities = [self._queue(str(session.charged)).priority for session in sessions]
        queues = (distance, max(priorities)) if self._reclaims else ()
        return (
            not all(map(self._is_recalled, victims)), ended, *queues, max(session.priority for session in sessions),
            sorted((kernel.priority for kernel in victims), reverse=True),
            sum(map(self._lost, victims)) // 60_000_000, sum(session.checkpoint_ms is not None for session in sessions),
            len(victims), sorted(str(kernel.kernel_id) for kernel in victims),
        )  # fmt: skip

    def tier_with(self, victims: list[KernelWorkload]) -> int | None:
        """The tier of the taker's domain with the victims gone; None if it does not start."""
        gone = {kernel.kernel_id for kernel in victims}
        sessions = []
        for session in self._snapshot.sessions:
            taken = session.session_id == self._taker.session_id
            kernels = tuple(k for k in session.kernels if k.kernel_id not in gone and (taken or k.agent is not None))
            if kernels:
                sessions.append(replace(session, kernels=kernels, min_kernels=session.gang_size))
        agents = tuple(
            _without(agent, [k for k in victims if k.agent == agent.agent_id]) for agent in self._snapshot.agents
        )
        seen = replace(self._snapshot, sessions=tuple(sessions), agents=agents)
        decision = reference_schedule(seen, replace(self._profile, actions=("allocate",)))
        mine = {str(kernel.kernel_id) for kernel in self._taker.kernels}
        placed = [agent for kernel, agent in decision.placements if kernel in mine]
        if not placed:
            return None
        if self._taker.topology is None:
            return 0
        tree = HyperNodeTree((agent.agent_id for agent in agents), self._snapshot.hypernodes)
        first = placed[: self._taker.gang_size]
        return tree.tier(tree.domain_of(first) or "")


def _without(agent: AgentInfo, kernels: list[KernelWorkload]) -> AgentInfo:
    """An agent on which these kernels have ended."""
    slots = total(kernel.slots for kernel in kernels)
    return replace(agent, occupied_slots=agent.occupied_slots - slots, kernel_count=agent.kernel_count - len(kernels))
