"""Ports of kernels: two servers of the tests on one machine must not lease the same ones."""

from __future__ import annotations

import os

VARIABLE = "SOKOVAN_AGENT__KERNEL_PORTS"
_FIRST, _WORKERS, _EACH = 24_000, 25, 100


def kernel_ports(kind: int) -> dict[str, str]:
    """The variable with a range for servers of this kind, 0 or 1, in this process of the tests."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    first = _FIRST + (2 * worker + kind) * _EACH
    return {VARIABLE: f"{first}-{first + _EACH - 1}"}
