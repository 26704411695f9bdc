"""The address that a server listens on for agents of other machines."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address

from sokovan.domain.errors import InvalidInput
from sokovan.wire.api.system import MACHINES_PORT

PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a port to listen on."""

    host: str
    port: int

    @property
    def advertised(self) -> str:
        """The host for other machines: this one's name if it listens on all addresses."""
        try:
            unspecified = ip_address(self.host).is_unspecified
        except ValueError:
            unspecified = False
        host = socket.gethostname() if unspecified else self.host
        return f"[{host}]" if ":" in host else host


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
