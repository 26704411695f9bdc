"""Opens the listener for other machines, and renews its certificate."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.machine_listener import MachineEndpoint, serve_machines
from sokovan.adapters.local.certificates import VALID_S, CertificateAuthority, fingerprint
from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.cluster.agent_grant import JoinAddress
from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.joining.enrolment import FOREIGN, Admit, Enrolment
from sokovan.entrypoints.joining.machine_options import MachineLinkOptions
from sokovan.entrypoints.web.connection_limits import Connections
from sokovan.ports.environment import Clock
from sokovan.ports.storage import Store
from sokovan.wire.join_messages import MANAGER_NAME

# A certificate that another manager has revoked is cut off after this.
REVOKED_CHECK_S = 2.0
# Runs a task until the manager ends, and again after a failure.
Keep = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


class MachinePortTaken(SokovanError):
    """The address for agents of other machines is in use, or not of this machine."""

    code = "machine-port-taken"
    hint = "choose another address with --listen, or stop the process that uses it"


class MachineLinks:
    """The authority, the enrolment and the listener of other machines."""

    def __init__(self, options: MachineLinkOptions, store: Store) -> None:
        self._options, self._clock = options, SystemClock()
        self._authority = CertificateAuthority(options.folder, self._clock, own=options.own)
        self._enrolment = Enrolment(store, self._authority, self._clock, options.log, managers=options.managers)
        self._reports: set[asyncio.Task[None]] = set()

    def admission(self, admit: Admit, token: str) -> Admit:
        """Extends `admit`: an agent with a certificate is admitted like one with `token`."""
        return self._enrolment.admission(admit, token)

    async def start(self, linked: LinkedAgents, stack: AsyncExitStack, keep: Keep) -> JoinAddress:
        """Listen for other machines until the stack is closed. Raises MachinePortTaken."""
        at, options, authority = self._options.at, self._options, self._authority
        tls = authority.listening(MANAGER_NAME, self._refused)
        bounds = Connections(options.limits, self._clock, telemetry=options.telemetry, log=options.log)
        enrolment, copies = self._enrolment, options.copies if options.managers else None
        endpoint = MachineEndpoint(linked, enrolment.join, authority.certificate, enrolment.granted, copies)
        serving = serve_machines(endpoint, host=at.host, port=at.port, tls=tls, bounds=bounds)
        try:
            listener = await stack.enter_async_context(serving)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise MachinePortTaken(f"cannot listen on {at.host}:{at.port} for other machines: {reason}") from error

        async def renew() -> None:
            await renew_repeatedly(self._clock, lambda: authority.renew(tls, MANAGER_NAME))

        keep(renew)
        if options.managers:  # another manager may revoke a certificate
            keep(lambda: disconnect_revoked(self._clock, linked, self._enrolment))
        return JoinAddress(f"wss://{at.advertised}:{listener.port}", fingerprint(authority.certificate))

    def _refused(self, reason: str) -> None:
        """Record a certificate that the handshake refused."""
        task = asyncio.ensure_future(self._enrolment.denied("agent.link", "unknown", FOREIGN, reason=reason))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)


async def disconnect_revoked(clock: Clock, linked: LinkedAgents, enrolment: Enrolment) -> None:
    """Close the links of agents whose certificate was revoked; runs until cancelled."""
    while True:
        await clock.sleep(REVOKED_CHECK_S)
        for agent_id in await enrolment.revoked(linked.connected):
            linked.disconnect(agent_id, "the certificate of the agent was revoked")


async def renew_repeatedly(clock: Clock, renew: Callable[[], None]) -> None:
    """Renew a certificate when a third of its time has passed; runs until cancelled."""
    while True:
        await clock.sleep(VALID_S / 3)
        await asyncio.to_thread(renew)
