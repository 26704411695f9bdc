"""Who may share a transaction, and who may have one at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from sokovan.ports.allocation import Assignment


def lanes_of(assignments: Sequence[Assignment], *, count: int) -> list[list[Assignment]]:
    """Up to `count` parts of about equally many kernels, each in the given order.

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


def rounds_of(groups: Sequence[Sequence[Assignment]]) -> list[list[int]]:
    """Callers by number, so that two who name one session are not in one round.

    The later one then sees what the earlier did.
    """
    rounds: list[tuple[set[str], list[int]]] = []
    for index, group in enumerate(groups):
        ids = {str(assignment.session_id) for assignment in group}
        met = [number for number, (taken, _) in enumerate(rounds) if taken & ids]
        number = met[-1] + 1 if met else 0
        if number == len(rounds):
            rounds.append((set(), []))
        rounds[number][0].update(ids)
        rounds[number][1].append(index)
    return [indices for _, indices in rounds]
