"""The data listener of a server's agent as options; nothing is loaded without one."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

from sokovan.adapters.local.clock import SystemClock
from sokovan.agent.inventory import agent_name
from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.agent import AgentOptions
from sokovan.entrypoints.settings.server_settings import ServerSettings


def require_authority(settings: ServerSettings) -> None:
    """Require the listener whose authority a data listener needs. Raises InvalidInput."""
    if settings.agent.enabled and settings.agent.data_listen and not settings.orchestrator.listen:
        hint = "give --listen HOST:PORT too, or leave agent.data_listen empty: there are no other machines"
        raise InvalidInput("agent.data_listen is set, and this server has no authority for other machines", hint=hint)


def with_data_listener(options: AgentOptions, *, folder: Path, own: Path) -> AgentOptions:
    """The options of a server's agent, with its data listener if an address is set.

    `folder` is that of the authority, `own` that of this manager's certificates. Raises
    DataPortTaken.
    """
    if not options.data_listen:
        return options
    from sokovan.entrypoints.joining.own_data_listener import own_data_listener  # noqa: PLC0415  # loads cryptography

    name, clock = options.name or agent_name(platform.node()), SystemClock()
    made = own_data_listener(options.data_listen, agent=name, folder=folder, own=own, clock=clock)
    return replace(options, data=made.socket, beside=made.renew)
