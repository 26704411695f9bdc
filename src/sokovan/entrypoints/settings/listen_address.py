"""The address that a server listens on for agents of other machines."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address

from sokovan.domain.cluster.agent import OWN_ADDRESS_LABEL
from sokovan.domain.errors import InvalidInput
from sokovan.wire.api.system import MACHINES_PORT

PORT_MAX = 65_535
# A documentation address, which is routed as any other outside.
_OUTSIDE = "192.0.2.1"
ROUTE_PORT = 9


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a port to listen on."""

    host: str
    port: int

    @property
    def advertised(self) -> str:
        """The host for other machines: this one's name if it listens on all addresses."""
        host = socket.gethostname() if self._is_everywhere else self.host
        return f"[{host}]" if ":" in host else host

    @property
    def own_address(self) -> str:
        """The address at which other machines reach this one; empty if none is known."""
        if self._is_everywhere:
            return own_address_toward(_OUTSIDE)
        return "" if _is_loopback(self.host) else self.host

    @property
    def _is_everywhere(self) -> bool:
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False


def own_labels(listen: str) -> dict[str, str]:
    """The label with the address of an agent whose server listens there."""
    own = read_listen(listen).own_address if listen else ""
    return {OWN_ADDRESS_LABEL: own} if own else {}


def own_address_toward(host: str) -> str:
    """The address of this machine on the way to another one; empty if it is loopback.

    Nothing is sent: the system is asked for its route.
    """
    try:
        found = socket.getaddrinfo(host, ROUTE_PORT, type=socket.SOCK_DGRAM)
        with socket.socket(found[0][0], socket.SOCK_DGRAM) as route:
            route.connect(found[0][4])
            own = str(route.getsockname()[0])
    except OSError:
        return ""
    return "" if _is_loopback(own) else own


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine, by the route to it; true if that is not known."""
    try:
        found = socket.getaddrinfo(host, ROUTE_PORT, type=socket.SOCK_DGRAM)
        with socket.socket(found[0][0], socket.SOCK_DGRAM) as route:
            route.connect(found[0][4])
            return _is_loopback(str(found[0][4][0])) or bool(route.getsockname()[0] == found[0][4][0])
    except OSError:
        return True


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_listen(text: str) -> ListenAddress:
    """Read HOST:PORT. Raises InvalidInput.

    >>> read_listen("0.0.0.0:7649")
    ListenAddress(host='0.0.0.0', port=7649)
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 <= int(port[:6]) <= PORT_MAX:
        hint = f"use 0.0.0.0:{MACHINES_PORT}, or an address of this machine"
        raise InvalidInput(f"{text[:80]!r} is not HOST:PORT", hint=hint)
    return ListenAddress(host, int(port))


def link_url(text: str) -> str:
    """The URL of a manager for agents, from HOST:PORT. Raises InvalidInput.

    >>> link_url("10.0.0.1:7649")
    'wss://10.0.0.1:7649'
    """
    at = read_listen(text)
    return f"wss://{at.advertised}:{at.port}"
