"""Options of the listener for other machines, which loads no cryptography."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sokovan.entrypoints.settings.listen_address import ListenAddress
from sokovan.entrypoints.web.connection_limits import ConnectionLimits
from sokovan.ports.environment import Telemetry
from sokovan.ports.uploads import UploadStore


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLinkOptions:
    """The address for agents of other machines, and the folder of the authority.

    `own` is the folder for the certificate of this manager. `managers` are the URLs of all
    managers for these agents, if there are several; `copies` are the uploads for them.
    """

    at: ListenAddress
    folder: Path
    own: Path | None = None
    managers: tuple[str, ...] = ()
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    telemetry: Telemetry
    log: Callable[[str], None]
    copies: UploadStore | None = None
