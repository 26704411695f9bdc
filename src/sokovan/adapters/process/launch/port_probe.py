"""Checks that the leased ports of a kernel are free before it starts."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from sokovan.ports.runtime import RuntimeFailure

_FAMILIES = ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"))  # noqa: S104  # bound and closed, never listened on


class PortTaken(RuntimeFailure):
    """A port that was leased to a kernel is in use by another program."""

    code = "port-taken"
    hint = "another program on the agent's machine listens there; exclude its port with --kernel-ports FIRST-LAST"


def require_free_ports(ports: Iterable[int]) -> None:
    """Bind each port and release it. Raises PortTaken.

    A program may still take one between this and the start of the kernel.
    """
    for port in ports:
        for family, host in _FAMILIES:
            if _is_taken(family, host, port):
                raise PortTaken(f"port {port} is in use by another program on this machine")


def _is_taken(family: socket.AddressFamily, host: str, port: int) -> bool:
    try:
        probe = socket.socket(family, socket.SOCK_STREAM)
    except OSError:  # the machine does not have the family
        return False
    with probe:
        # Connections of an earlier kernel that have ended do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:  # other errors are not about the port
            return problem.errno == errno.EADDRINUSE
    return False
