"""Parts of a batch that share no agent, so that transactions of their own do not meet."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.ports.allocation import Assignment


def lanes_of(assignments: Sequence[Assignment], *, count: int) -> list[list[Assignment]]:
    """Up to `count` parts of about the same number of kernels, each in the given order.

    No agent occurs in two parts. A batch that hangs together through its gangs stays
    in one.
    """
    root: dict[str, str] = {}

    def find(agent: str) -> str:
        while root[agent] != agent:
            root[agent] = root[root[agent]]
            agent = root[agent]
        return agent

    for assignment in assignments:
        agents = [agent for _, agent in assignment.kernels]
        for agent in agents:
            root.setdefault(agent, agent)
        for agent in agents[1:]:
            root[find(agent)] = find(agents[0])
    sizes: dict[str, int] = {}
    places = [find(one.kernels[0][1]) if one.kernels else "" for one in assignments]
    for place, assignment in zip(places, assignments, strict=True):
        sizes[place] = sizes.get(place, 0) + len(assignment.kernels)
    lane_of = _shared_out(sizes, count)
    lanes: list[list[Assignment]] = [[] for _ in range(count)]
    for place, assignment in zip(places, assignments, strict=True):
        lanes[lane_of[place]].append(assignment)
    return [lane for lane in lanes if lane]


def _shared_out(sizes: dict[str, int], count: int) -> dict[str, int]:
    """The largest first, each to the lane that has least."""
    load = [0] * count
    lane_of: dict[str, int] = {}
    for place in sorted(sizes, key=lambda place: (-sizes[place], place)):
        lane = load.index(min(load))
        lane_of[place] = lane
        load[lane] += sizes[place]
    return lane_of
