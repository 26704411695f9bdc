"""SelectorChoice: adapts a selector and the plugins to the engine's AgentChoice.

A selector is called by keys, by a vector score, or with agents as objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.scheduling.engine.agent_choice import AgentChoice, KeyedChoice
from sokovan.scheduling.engine.shapes import Shape, ShapeTable
from sokovan.scheduling.engine.workspace import Ints
from sokovan.scheduling.extensions import Extensions, PluginFailed
from sokovan.scheduling.selectors.base import (
    AgentSelectionCriteria,
    AgentSelector,
    Candidates,
    RankedSelector,
    ResourceRequirements,
    largest_of,
)
from sokovan.scheduling.selectors.exceptions import AgentSelectionError, TrackerCompatibilityError
from sokovan.scheduling.snapshot import KernelWorkload

_POINTS = ("predicate", "batch_agent_order", "agent_order_map", "best_agent")


def choice_for(
    selector: AgentSelector,
    table: ShapeTable,
    extensions: Extensions,
    *,
    slot_priority: tuple[str, ...],
    cursor: str | None,
) -> AgentChoice:
    """The AgentChoice for a selector together with the plugins."""
    rank = _rank(selector, table)
    keyed = None
    if rank is not None:
        keyed = KeyedChoice(table, rank=rank, weight=selector.weight, fills=selector.fills)
        if not any(extensions.at(point) for point in _POINTS):
            return keyed
    chosen = SelectorChoice(selector, table, extensions, slot_priority=slot_priority, keyed=keyed)
    chosen.cursor = cursor
    return chosen


def _rank(selector: AgentSelector, table: ShapeTable) -> Ints | None:
    """The fixed rank of a keyed selector; None if it raises, so that its plain form is used."""
    try:
        rank = selector.static_rank(table.workspace)
    except Exception:  # noqa: BLE001  # a failing plugin must not stop the cycle
        return None
    return None if rank is None or len(rank) != len(table.workspace.ids) else np.asarray(rank, np.int64)


class AgentTracker:
    """The current agents as objects, for selectors in the plain form."""

    def __init__(self, table: ShapeTable) -> None:
        self._workspace = table.workspace
        self._cache: dict[int, AgentInfo] = {}
        self._seen = 0

    def agents(self, indices: Ints, *, later: bool = False) -> list[AgentInfo]:
        """These agents as they are now, or (`later`) once room is released."""
        if later:
            return [self._build(int(index), self._workspace.future) for index in indices]
        for agent in self._workspace.log[self._seen :]:
            self._cache.pop(agent, None)
        self._seen = len(self._workspace.log)
        return [self._info(int(index)) for index in indices]

    def index(self, agent_id: str) -> int:
        """The row of an agent. Raises TrackerCompatibilityError."""
        if agent_id not in self._workspace.position:
            raise TrackerCompatibilityError(f"the selector chose {agent_id!r}, which is not an agent of this cycle")
        return self._workspace.position[agent_id]

    def _info(self, index: int) -> AgentInfo:
        if index not in self._cache:
            self._cache[index] = self._build(index, self._workspace.idle)
        return self._cache[index]

    def _build(self, index: int, free: Ints) -> AgentInfo:
        workspace = self._workspace
        used = np.maximum(workspace.capacity[index] - free[index], 0).tolist()
        return replace(
            workspace.agents[index],
            occupied_slots=ResourceSlot(dict(zip(workspace.slots, used[: workspace.slot_count], strict=True))),
            kernel_count=used[-1],
            releasing_slots=NO_SLOTS,
            releasing_count=0,
        )


class SelectorChoice:
    """Choice by any selector, with the plugins' predicates and scores."""

    fills = False

    def __init__(
        self,
        selector: AgentSelector,
        table: ShapeTable,
        extensions: Extensions,
        *,
        slot_priority: tuple[str, ...],
        keyed: KeyedChoice | None,
    ) -> None:
        self._selector, self._table, self._extensions, self._keyed = selector, table, extensions, keyed
        self.by_shape = isinstance(selector, RankedSelector) and not any(extensions.at(point) for point in _POINTS)
        self._workspace = table.workspace
        self._tracker = AgentTracker(table)
        self._sorted_ids = sorted(table.workspace.ids)
        self._criteria = AgentSelectionCriteria(slot_priority, largest_of(table.workspace.agents))
        self.cursor: str | None = None

    def now(self, shape: Shape, low: int, high: int, kernel: KernelWorkload) -> int:
        """The best agent that can take the kernel now."""
        fits = shape.fit_counts(self._workspace, slice(low, high)) > 0
        return self._pick(shape, np.flatnonzero(fits) + low, kernel, later=False)

    def later(self, shape: Shape, low: int, high: int, kernel: KernelWorkload) -> int:
        """The best agent that can take the kernel once room is released."""
        fits = shape.future_counts(self._workspace, slice(low, high)) > 0
        return self._pick(shape, np.flatnonzero(fits) + low, kernel, later=True)

    def keys(self, shape: Shape) -> Ints:
        """Not used: this choice does not fill by array."""
        return shape.fit_counts(self._workspace)

    def allows(self, kernel: KernelWorkload, agent: int) -> bool:
        """Whether every plugin's predicate allows the kernel on the agent."""
        if not self._extensions.at("predicate"):
            return True
        info = self._tracker.agents(np.array([agent]))[0]
        return all(self._extensions.call_all("predicate", kernel, info))

    def chosen(self, agent: int) -> None:
        """Move the round-robin cursor."""
        self.cursor = self._workspace.ids[agent]

    def _pick(self, shape: Shape, agents: Ints, kernel: KernelWorkload, *, later: bool) -> int:
        agents = self._preferred(shape, self._permitted(agents, kernel))
        if len(agents) > 1:
            agents = self._best_scored(agents, kernel)
        if not len(agents):
            return -1
        if len(agents) == 1 and self.by_shape:
            return int(agents[0])
        return self._by_selector(shape, agents, kernel, later=later)

    def _permitted(self, agents: Ints, kernel: KernelWorkload) -> Ints:
        if not self._extensions.at("predicate"):
            return agents
        infos = self._tracker.agents(agents)
        return agents[[all(self._extensions.call_all("predicate", kernel, info)) for info in infos]]

    def _preferred(self, shape: Shape, agents: Ints) -> Ints:
        """The own shard before others, then agents without unused accelerators."""
        own = self._table.own
        if own is not None and own[agents].any():
            agents = agents[own[agents]]
        if len(agents):
            penalty = self._table.penalty(shape)[agents]
            agents = agents[penalty == penalty.min()]
        return agents

    def _best_scored(self, agents: Ints, kernel: KernelWorkload) -> Ints:
        """The agents with the highest sum of plugin scores; all of them if no plugin scores."""
        extensions = self._extensions
        if not any(extensions.at(point) for point in _POINTS[1:]):
            return agents
        infos = self._tracker.agents(agents)
        scores = {info.agent_id: 0 for info in infos}
        for answer in extensions.call_all("batch_agent_order", kernel, infos):
            if answer is not None:
                _add(scores, dict(zip(scores, answer, strict=True)))
        for plugin in extensions.at("agent_order_map"):
            raw = {i.agent_id: extensions.call(plugin, "agent_order_map", kernel, i) for i in infos}
            known = {name: score for name, score in raw.items() if score is not None}
            _add(scores, extensions.call(plugin, "agent_order_reduce", kernel, known))
        for answer in extensions.call_all("best_agent", kernel, scores):
            if answer in scores:
                return np.array([self._tracker.index(answer)])
        best = max(scores.values())
        return agents[[scores[info.agent_id] == best for info in infos]]

    def _by_selector(self, shape: Shape, agents: Ints, kernel: KernelWorkload, *, later: bool) -> int:
        if self._keyed is not None:
            keys = self._keyed.weighed(shape, agents)
            return int(agents[int(keys.argmax())])
        requirements = ResourceRequirements(kernel.slots, kernel.architecture, kernel.require, kernel.image)
        name = self._selector.name
        try:
            scores = self._selector.score(self._candidates(agents, requirements))
            if scores is not None:
                scores = np.asarray(scores, np.int64).reshape(len(agents))
                top = agents[scores == scores.max()]
                return int(top[int(self._workspace.id_rank[top].argmin())])
            last = AgentId(self.cursor) if self.cursor is not None else None
            selection = self._selector.select(
                requirements, self._tracker.agents(agents, later=later), replace(self._criteria, last_agent=last)
            )
            agent = self._tracker.index(selection.agent_id)
        except TrackerCompatibilityError as error:
            raise PluginFailed(name, "select", error) from error
        except AgentSelectionError:
            return -1
        except Exception as error:
            raise PluginFailed(name, "select", error) from error
        if agent not in agents:
            wrong = TrackerCompatibilityError(
                f"the selector chose {selection.agent_id!r}, on which the kernel does not fit"
            )
            raise PluginFailed(name, "select", wrong)
        return agent

    def _candidates(self, agents: Ints, requirements: ResourceRequirements) -> Candidates:
        workspace = self._workspace
        return Candidates(
            ids=tuple(workspace.ids[index] for index in agents),
            slots=workspace.slots,
            capacity=workspace.capacity[agents, : workspace.slot_count],
            idle=workspace.idle[agents, : workspace.slot_count],
            occupancy=workspace.occupancy[agents],
            id_rank=workspace.id_rank[agents],
            last_rank=bisect_right(self._sorted_ids, self.cursor) if self.cursor is not None else 0,
            agents_total=len(workspace.ids),
            agents=tuple(workspace.agents[index] for index in agents),
            slot_priority=self._criteria.slot_priority,
            requirements=requirements,
        )


def _add(scores: dict[AgentId, int], more: Mapping[AgentId, int]) -> None:
    for name, score in more.items():
        scores[name] += score
