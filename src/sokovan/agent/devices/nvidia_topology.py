"""Groups of NVIDIA devices that are close together, by the driver's matrix."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sokovan.agent.devices.nvidia_smi import printed
from sokovan.domain.cluster.device_groups import NUMA, NVLINK, PCIE

WORDS = ("topo", "-m")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_DEVICE = re.compile(r"GPU\d+")
_NUMA_COLUMN = "NUMA Affinity"
_SWITCHES = frozenset({"PIX", "PXB"})


def device_closeness(devices: Sequence[str], path: str | None = None) -> dict[str, frozenset[str]]:
    """The groups of devices, which are in the driver's order, by name.

    `path` replaces PATH.
    """
    done = printed(WORDS, path) if len(devices) > 1 else None
    return {} if done is None or done.problem else read_matrix(done.text, devices)


def read_matrix(text: str, devices: Sequence[str]) -> dict[str, frozenset[str]]:
    """Read the matrix; one of another form has no groups.

    Groups of all devices say nothing, and are left out. Those with links of their own come with
    their parts on one switch or node.
    """
    lines = [_ESCAPES.sub("", line).split("\t") for line in text.splitlines()]
    header = next(([cell.strip() for cell in line] for line in lines if "GPU0" in map(str.strip, line[1:])), [])
    rows = [[cell.strip() for cell in line] for line in lines if _DEVICE.fullmatch(line[0].strip())]
    columns = [at for at, name in enumerate(header) if _DEVICE.fullmatch(name)]
    if not len(rows) == len(columns) == len(devices) or any(len(row) <= max(columns) for row in rows):
        return {}
    matrix = [[row[at] for at in columns] for row in rows]
    linked = _components(matrix, lambda cell: cell.startswith("NV"))
    switched = _components(matrix, lambda cell: cell in _SWITCHES)
    nodes = _nodes(header, rows)
    inside = [island & part for island in linked for part in (*switched, *nodes) if island & part < island]
    numbered = {NVLINK: linked, f"{NVLINK}-part": inside, PCIE: switched, NUMA: nodes}
    return {
        f"{kind}{number}": frozenset(devices[one] for one in group)
        for kind, groups in numbered.items()
        for number, group in enumerate(dict.fromkeys(groups))
        if 1 < len(group) < len(devices) and (kind != f"{NVLINK}-part" or len(linked) > 1)
    }


def _components(matrix: Sequence[Sequence[str]], connects: Callable[[str], bool]) -> list[frozenset[int]]:
    """The sets of devices that are connected with each other, by number."""
    found: list[frozenset[int]] = []
    left = set(range(len(matrix)))
    while left:
        group, new = set[int](), {min(left)}
        while new:
            group |= new
            new = {to for at in new for to, cell in enumerate(matrix[at]) if connects(cell)} - group
        left -= group
        found.append(frozenset(group))
    return found


def _nodes(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[frozenset[int]]:
    """The devices of each NUMA node."""
    at = header.index(_NUMA_COLUMN) if _NUMA_COLUMN in header else len(header)
    nodes: dict[str, set[int]] = {}
    for number, row in enumerate(rows):
        if at < len(row) and row[at].isdecimal():
            nodes.setdefault(row[at], set()).add(number)
    return [frozenset(group) for group in nodes.values()]
