"""Workspace: free resources of all agents as integer columns.

Takes the agents of a snapshot and their HyperNode tree, then the changes of
Statements. Gives idle and future amounts, occupancy and sizes as arrays, and a log of
changed rows. There is one row per agent, in depth-first HyperNode order, so that a
HyperNode is a slice of rows. A row has the slots of the agent twice, side by side:
what is idle now, and what will be idle once everything being released is free
(FutureIdle = Idle + Releasing - Pipelined). After the slots, a half has a column for each
port that is requested in the cycle (a fixed one is there once, any port as often as the
agent's range has free ones), so that ports are slots like any other; ports that are being
released rest first, and are not in FutureIdle. The last column counts kernels; before it is
one for kernels without slots (best-effort ones), if there are any. After these two halves a
row has one block for each time at which room is held (see `timing`): what will be free then.

Amounts are exact. Occupancy and size are fixed point with `ONE` for 1, rounded
down, so that they are equal on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sokovan.domain.cluster.agent import AgentInfo, port_range
from sokovan.domain.cluster.topology import HyperNodeTree
from sokovan.domain.lifecycle.agent import SCHEDULABLE
from sokovan.domain.session import ANY_PORT
from sokovan.domain.slots import ResourceSlot

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

ONE_BITS = 20
ONE = 1 << ONE_BITS
# A product with ONE must stay inside 63 bits; larger columns are shifted before they are compared as shares.
_SHARE_BITS = 42
NO_LIMIT = 1 << 40
# Up to this many changed agents are updated one by one, which is faster than by array.
_FEW = 8
# The room of a block in which nothing is held.
UNBOUNDED = 1 << 61


class LoggedColumn:
    """A number per agent, computed again only for the agents that the log names since."""

    def __init__(self) -> None:
        self._values: Ints | None = None
        self._seen = 0

    def updated(self, log: Sequence[int], compute: Callable[[Ints | slice], Ints], one: Callable[[int], int]) -> Ints:
        """The numbers as they are now, computed by `one` if few have changed.

        The next call may change the array.
        """
        values, seen = self._values, self._seen
        self._seen = len(log)
        if values is None:
            values = self._values = compute(slice(None))
        elif seen != len(log):
            if len(log) - seen <= _FEW:
                for agent in set(log[seen:]):
                    values[agent] = one(agent)
            elif len(log) - seen >= len(values):
                values[:] = compute(slice(None))
            else:
                agents = np.array(log[seen:], np.int64)
                values[agents] = compute(agents)
        return values


class BestEffortCounts(NamedTuple):
    """Kernels without slots by agent, and how many an agent may have."""

    per_agent_max: int
    on_agents: Counter[str]
    releasing: Counter[str]


class Workspace:
    """The free resources of every agent during a cycle."""

    def __init__(
        self,
        agents: Iterable[AgentInfo],
        tree: HyperNodeTree,
        slot_names: Iterable[str],
        *,
        ports: Iterable[int] = (),
        now_ms: int = 0,
        best_effort: BestEffortCounts | None = None,
    ) -> None:
        by_id = {agent.agent_id: agent for agent in agents}
        self.tree = tree
        self.agents = [by_id[agent_id] for agent_id in tree.agents]  # type: ignore[index]  # ids are plain text
        self.ids = tree.agents
        self.position = {agent_id: index for index, agent_id in enumerate(tree.agents)}
        self.slots = tuple(sorted(set(slot_names).union(*{agent.available_slots for agent in self.agents})))
        self.column = {slot: index for index, slot in enumerate(self.slots)}
        self.slot_count = len(self.slots)
        self.ports = tuple(sorted(set(ports)))
        self.port_column = {port: self.slot_count + index for index, port in enumerate(self.ports)}
        self._best_effort = best_effort
        self.width = self.slot_count + len(self.ports) + (1 if best_effort is None else 2)
        self._now_ms = now_ms
        self.blocks = 0
        # Released amounts are part of the occupied ones.
        busy = [index for index, agent in enumerate(self.agents) if agent.kernel_count or agent.occupied_slots]
        self.releases = any(self.agents[row].releasing_count or self.agents[row].releasing_slots for row in busy)
        self.capacity = self._capacity()
        self.room = self._room(busy)
        accepting: Flags = np.array([agent.status in SCHEDULABLE and agent.approved for agent in self.agents], bool)
        refused: Flags = np.array([agent.health.failing_ms is not None for agent in self.agents], bool)
        self.alive: Flags = accepting & ~refused
        # Agents that are alive, and get no kernels because sessions could not be started there.
        self.failing: Flags = accepting & refused
        self.log: list[int] = []
        self.held = 0  # kernels reserved on FutureIdle; with 0, FutureIdle is nowhere below Idle
        # For verdicts: what was taken from Idle for sessions that wait, and the first holder of a reservation, by row.
        self.held_idle: Ints = np.zeros_like(self.capacity)
        self.holders: dict[int, str] = {}
        self._shifts = self._share_shifts()
        self._share_rows = self._share_columns()
        self.occupancy: Ints = self._occupancies()
        self.id_rank: Ints = _ranks(self.ids)
        self._largest = self._largest_agent()
        self.size = self._sizes()

    @property
    def idle(self) -> Ints:
        """Free amounts now; the last column counts kernels."""
        return self.room[:, : self.width]

    @property
    def future(self) -> Ints:
        """Free amounts once everything being released is free, less reservations."""
        return self.room[:, self.width : 2 * self.width]

    def add_blocks(self, count: int) -> None:
        """Make room for so many blocks; before any shape is made."""
        self.blocks = count
        self.room = np.hstack((self.room, np.full((len(self.ids), count * self.width), UNBOUNDED, np.int64)))

    def row_of(
        self, slots: ResourceSlot, *, kernels: int = 1, ports: Sequence[int] = (), best_effort: int | None = None
    ) -> list[int]:
        """Slots, ports and counts as a row, in the order of the columns.

        Kernels without slots are best-effort ones, unless their number is given.
        """
        row = [*slots.row(self.slots), *(ports.count(port) for port in self.ports)]
        if self._best_effort is None:
            return [*row, kernels]
        return [*row, best_effort if best_effort is not None else 0 if slots else kernels, kernels]

    def take(self, agent: int, both: Ints) -> None:
        """Subtract from Idle and FutureIdle of one agent (negative amounts add)."""
        row = self.room[agent]
        row -= both
        occupancy, shifts = 0, self._shifts
        idle = row.tolist()
        for column, capacity, scaled in self._share_rows[agent]:
            free = idle[column]
            used = capacity - free if free > 0 else capacity
            share = ((used >> shifts[column]) << ONE_BITS) // scaled
            if share > occupancy:  # noqa: PLR1730  # the call of `max` would take longer than the rest
                occupancy = share
        self.occupancy[agent] = occupancy
        self.log.append(agent)

    def take_many(self, agents: Ints, both: Ints, counts: Ints) -> None:
        """Subtract `counts` times `both` from many agents at once; each agent occurs once."""
        self.room[agents] -= np.outer(counts, both)
        self.occupancy[agents] = self._shares(agents)
        self.log.extend(agents.tolist())

    def hold(self, agent: int, later: Ints, kernels: int) -> None:
        """Reserve FutureIdle of one agent (negative amounts cancel the reservation)."""
        self.room[agent] -= later
        self.held += kernels
        self.log.append(agent)

    def mark_held(self, agent: int, both: Ints) -> None:
        """Record that an amount was taken from Idle for a session that does not start yet."""
        self.held_idle[agent] += both[: self.width]

    def free_soon(self, agent: int, soon: Ints) -> None:
        """Add the slots of an evicted kernel to FutureIdle (negative amounts subtract)."""
        self.room[agent] += soon
        self.releases = True
        self.log.append(agent)

    def total(self) -> list[int]:
        """Slots of schedulable agents, plus the slots in use on all others."""
        others = ~self.alive
        used = np.maximum(self.capacity[others, : self.slot_count] - self.idle[others, : self.slot_count], 0)
        return [int(amount) for amount in self.capacity[self.alive, : self.slot_count].sum(axis=0) + used.sum(axis=0)]

    def size_of(self, request: Ints) -> int:
        """The size of a request: its largest share of any slot of the largest agent."""
        shares = [
            ((amount >> shift) << ONE_BITS) // largest
            for amount, shift, largest in zip(
                request[: self.slot_count].tolist(), self._shifts, self._largest.tolist(), strict=True
            )
        ]
        return max(shares, default=0)

    def _capacity(self) -> Ints:
        cache: dict[ResourceSlot, list[int]] = {}
        best_effort = () if self._best_effort is None else (self._best_effort.per_agent_max,)
        rows = []
        for agent in self.agents:
            row = cache.get(agent.available_slots)
            if row is None:
                row = cache[agent.available_slots] = self.row_of(agent.available_slots, kernels=NO_LIMIT)
            ports = self._offered_ports(agent) if self.ports else ()
            kernels = NO_LIMIT if agent.kernels_max is None else agent.kernels_max
            rows.append([*row[: self.slot_count], *ports, *best_effort, kernels])
        return np.array(rows, np.int64).reshape(len(rows), self.width)

    def _offered_ports(self, agent: AgentInfo) -> list[int]:
        return [len(port_range(agent.labels)) if port == ANY_PORT else 1 for port in self.ports]

    def _room(self, busy: Sequence[int]) -> Ints:
        idle, future = self.capacity.copy(), self.capacity.copy()
        if self.ports:
            columns = slice(self.slot_count, self.slot_count + len(self.ports))
            idle[:, columns] = future[:, columns] = [self._free_ports(agent) for agent in self.agents]
        if busy:
            used = np.array([self._used_row(self.agents[index]) for index in busy], np.int64)
            idle[busy] -= used
            future[busy] -= used
        if releasing := [index for index in busy if self._releases(self.agents[index])]:
            future[releasing] += np.array([self._released_row(self.agents[index]) for index in releasing], np.int64)
        return np.hstack((idle, future))

    def _releases(self, agent: AgentInfo) -> bool:
        best_effort = self._best_effort is not None and self._best_effort.releasing[agent.agent_id] > 0
        return bool(agent.releasing_count or agent.releasing_slots or best_effort)

    def _used_row(self, agent: AgentInfo) -> list[int]:
        count = 0 if self._best_effort is None else self._best_effort.on_agents[agent.agent_id]
        return self.row_of(agent.occupied_slots, kernels=agent.kernel_count, best_effort=count)

    def _released_row(self, agent: AgentInfo) -> list[int]:
        count = 0 if self._best_effort is None else self._best_effort.releasing[agent.agent_id]
        return self.row_of(agent.releasing_slots, kernels=agent.releasing_count, best_effort=count)

    def _free_ports(self, agent: AgentInfo) -> list[int]:
        """How often each requested port is free on an agent: fixed ones once."""
        taken = self._taken(agent)
        left = self._ports_left(agent, taken)
        return [left if port == ANY_PORT else int(port not in taken) for port in self.ports]

    def _taken(self, agent: AgentInfo) -> set[int]:
        return {port for port, until_ms in agent.leased_ports if until_ms > self._now_ms}

    def _ports_left(self, agent: AgentInfo, taken: set[int]) -> int:
        """How many ports of an agent's range are free."""
        offered = port_range(agent.labels)
        return len(offered) - sum(port in offered for port in taken)

    def without_ports(self) -> Flags | None:
        """The agents that have no free port in their range; None if each has one."""
        full = [
            index
            for index, agent in enumerate(self.agents)
            if agent.leased_ports and not self._ports_left(agent, self._taken(agent))
        ]
        if not full:
            return None
        flags: Flags = np.zeros(len(self.agents), bool)
        flags[full] = True
        return flags

    def _share_shifts(self) -> list[int]:
        largest = self.capacity[:, : self.slot_count].max(axis=0, initial=0)
        return [max(0, int(amount).bit_length() - _SHARE_BITS) for amount in largest]

    def _share_columns(self) -> list[tuple[tuple[int, int, int], ...]]:
        """Per agent: the columns it has, their capacity, and the capacity shifted for division."""
        cache: dict[tuple[int, ...], tuple[tuple[int, int, int], ...]] = {}
        rows = []
        for row in map(tuple, self.capacity[:, : self.slot_count].tolist()):
            if row not in cache:
                cache[row] = tuple(
                    (column, amount, max(1, amount >> self._shifts[column]))
                    for column, amount in enumerate(row)
                    if amount
                )
            rows.append(cache[row])
        return rows

    def _occupancies(self) -> Ints:
        return self._shares(np.arange(len(self.agents)))

    def _shares(self, agents: Ints) -> Ints:
        shifts = np.array(self._shifts, np.int64)
        capacity = self.capacity[agents, : self.slot_count]
        # An agent that uses more than its capacity counts as full, not more.
        used = np.minimum(capacity - self.idle[agents, : self.slot_count], capacity) >> shifts
        shares = (used << ONE_BITS) // np.maximum(capacity >> shifts, 1)
        shares[capacity == 0] = 0
        return np.asarray(shares.max(axis=1, initial=0), np.int64)

    def _largest_agent(self) -> Ints:
        scaled = self.capacity[:, : self.slot_count] >> np.array(self._shifts, np.int64)
        return np.asarray(scaled.max(axis=0, initial=1), np.int64)

    def _sizes(self) -> Ints:
        """The size of each agent: its share of the largest agent, summed over the slots."""
        scaled = self.capacity[:, : self.slot_count] >> np.array(self._shifts, np.int64)
        return np.asarray(((scaled << ONE_BITS) // self._largest).sum(axis=1), np.int64)


def _ranks(ids: tuple[str, ...]) -> Ints:
    ranks = np.empty(len(ids), np.int64)
    ranks[np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)] = np.arange(len(ids))
    return ranks
