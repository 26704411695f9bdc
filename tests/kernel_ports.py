"""Ports of kernels: two servers of the tests on one machine must not lease the same ones."""

from __future__ import annotations

import os
from enum import IntEnum

VARIABLE = "SOKOVAN_AGENT__KERNEL_PORTS"
_FIRST, _WORKERS, _EACH = 24_000, 25, 100


class Rigs(IntEnum):
    """What a process of the tests starts servers with; each may have one at a time."""

    ACCEPTANCE = 0
    COMMAND_LINE = 1


def kernel_ports(rig: Rigs) -> range:
    """The ports of kernels of a server of this process of the tests."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    first = _FIRST + (len(Rigs) * worker + rig) * _EACH
    return range(first, first + _EACH)


def ports_variable(rig: Rigs) -> dict[str, str]:
    """The setting of these ports, as a variable."""
    ports = kernel_ports(rig)
    return {VARIABLE: f"{ports[0]}-{ports[-1]}"}
