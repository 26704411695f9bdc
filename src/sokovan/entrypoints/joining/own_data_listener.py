"""The data listener of the agent that is part of a server.

Its certificate is of the server's authority; other agents get theirs when they join.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sokovan.adapters.local.certificates import CertificateAuthority
from sokovan.agent.link.data_listener import DataSocket
from sokovan.entrypoints.joining.joined_agent import bound
from sokovan.entrypoints.joining.machine_links import renew_repeatedly
from sokovan.entrypoints.settings.listen_address import read_listen
from sokovan.ports.environment import Clock

CERTIFICATE_FILE = "own-agent.pem"


class OwnDataListener(NamedTuple):
    """A bound socket, and the task that renews its certificate until cancelled."""

    socket: DataSocket
    renew: Callable[[], Coroutine[Any, Any, None]]


def own_data_listener(listen: str, *, agent: str, folder: Path, own: Path, clock: Clock) -> OwnDataListener:
    """Listen on HOST:PORT for gateways on other machines.

    `folder` is that of the certificate authority, `own` that of this manager's certificates.
    Raises InvalidInput, DataPortTaken, AuthorityUnusable.
    """
    at = read_listen(listen)
    authority = CertificateAuthority(folder, clock, own=own)
    tls = authority.serving((agent,), CERTIFICATE_FILE)
    listener = bound(at.host, (at.port,))
    socket = DataSocket(listener, tls, f"{at.advertised}:{listener.getsockname()[1]}")
    renew = partial(authority.renew, tls, agent, file=CERTIFICATE_FILE)
    return OwnDataListener(socket, partial(renew_repeatedly, clock, renew))
