"""Sockets in the network of another process; those of containers in tests/integration."""

from __future__ import annotations

import pytest

from sokovan.adapters.docker.container_ports import ContainerPortConnection, socket_in
from sokovan.adapters.process.idle_times import IdleTimes
from sokovan.adapters.process.threads import Threads
from sokovan.ports.runtime import RuntimeFailure
from sokovan.testing.clock import VirtualClock


def test_a_network_that_cannot_be_entered_is_told() -> None:
    with pytest.raises(RuntimeFailure, match="cannot be entered: No such file"):
        socket_in(2**22 + 1)


async def test_a_kernel_that_does_not_run_has_no_port() -> None:
    threads = Threads()
    presence = IdleTimes(VirtualClock()).command("k1")
    with pytest.raises(RuntimeFailure, match="does not run"):
        async with ContainerPortConnection(80, lambda: None, threads=threads, presence=presence):
            pass
    threads.close()
