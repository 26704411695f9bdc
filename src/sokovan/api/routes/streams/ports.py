"""Connects a caller to a leased port of a running kernel, over a WebSocket.

Binary frames are the bytes of the connection in both directions; an empty one from the
caller ends its side. The last message is an exit code of 0, or a problem.
"""

from __future__ import annotations

from starlette.websockets import WebSocket, WebSocketDisconnect

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.errors import BodyTooLarge, PortUnreachable
from sokovan.api.middleware import POLICY_VIOLATION
from sokovan.api.problems import problem_of
from sokovan.api.routes.streams.exec import NORMAL, TOO_BIG, KernelSocket, send_last
from sokovan.domain.errors import ObjectNotFound, SokovanError, listed
from sokovan.domain.ids import AgentId
from sokovan.domain.records import KernelRecord
from sokovan.ports.agent_gateway import AgentRefused

PORT_PATH = "/api/v1/sessions/{ref}/kernels/{index:int}/ports/{port}"


class PortSocket(KernelSocket):
    """Connects callers that may change the session to the ports of its kernels."""

    async def run(self, websocket: WebSocket) -> None:
        """Serve one connection, from the first byte to the last."""
        principal = principal_of(websocket.scope)
        parameters = websocket.path_params
        self._streams.hub.require_room(principal.user)
        try:
            kernel, agent_id = await self.running(principal, parameters["ref"], parameters["index"])
            port = leased_port(kernel, parameters["port"])
        except ObjectNotFound as error:
            await self._auditor.denied(websocket, error)
            raise
        with self._command_limits.taken(principal.user, agent_id):
            await self._serve(websocket, principal, kernel, agent_id, port=port)

    async def _serve(
        self,
        websocket: WebSocket,
        principal: AuthenticatedPrincipal,
        kernel: KernelRecord,
        agent_id: AgentId,
        *,
        port: int,
    ) -> None:
        await websocket.accept()
        entry = audit_entry(principal, "session.connect", kernel.kernel_id, port=str(port))
        try:
            await self._store.run(lambda unit: unit.audit.append(entry))
            async with self._gateway.connect(agent_id, kernel.kernel_id, kernel.attempt, port) as connection:
                code = await self.relay(websocket, principal, connection)
        except WebSocketDisconnect:
            return
        except BodyTooLarge as error:
            await send_last(websocket, problem_of(error, principal.request_id), TOO_BIG)
        except AgentRefused as error:
            problem = problem_of(PortUnreachable(error.message), principal.request_id)
            await send_last(websocket, problem, POLICY_VIOLATION)
        except SokovanError as error:
            await send_last(websocket, problem_of(error, principal.request_id), POLICY_VIOLATION)
        else:
            await send_last(websocket, {"exit_code": code}, NORMAL)


def leased_port(kernel: KernelRecord, wanted: str) -> int:
    """The port of a kernel, by name or number. Raises ObjectNotFound."""
    for name, port in kernel.host_ports.items():
        if wanted in {name, str(port)}:
            return port
    known = listed(sorted(kernel.host_ports)) if kernel.host_ports else ""
    hint = f"its ports are {known}" if known else "ports are requested with `sokovan run --port NAME`"
    raise ObjectNotFound(what=f"port of kernel {kernel.kernel_id}", name=wanted, hint=hint)
