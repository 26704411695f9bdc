"""Runs a command inside a running kernel, over a WebSocket.

The first message is the request. Then binary frames are input, an empty one is its end,
and text frames set the size of the terminal; binary frames from the server are output,
and the last message is the exit code or a problem.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.lookup import kernel_at, read_session
from sokovan.api.context import ApiContext
from sokovan.api.errors import BodyTooLarge, ExecFailed
from sokovan.api.middleware import POLICY_VIOLATION
from sokovan.api.problems import problem_of
from sokovan.api.streaming.event_streams import UNTIL_WOKEN
from sokovan.api.streaming.execution import read_request, read_size
from sokovan.domain.errors import Conflict, ObjectNotFound, SokovanError, StoreUnavailable
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.records import KernelRecord
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.ports.runtime import KernelExecution
from sokovan.wire.api.execution import EXEC_PROTOCOL, FRAME_MAX, frames_of

PATH = "/api/v1/sessions/{ref}/kernels/{index:int}/exec"
FIRST_MESSAGE_S = 10.0
NORMAL = 1000
TOO_BIG = 1009


class KernelSocket:
    """A WebSocket to something in a running kernel."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._gateway = dependencies.store, dependencies.gateway
        self._streams, self._auditor = context.streams, context.auditor
        self._command_limits = context.command_limits

    async def running(self, principal: AuthenticatedPrincipal, ref: str, index: int) -> tuple[KernelRecord, AgentId]:
        """The kernel, which must run, and its agent. Raises ObjectNotFound, Conflict."""
        record = await read_session(self._store, ref, principal)
        kernel = kernel_at(record, index)
        if kernel.status is not KernelStatus.RUNNING or kernel.agent_id is None:
            hint = "commands and connections need a running kernel"
            raise Conflict(f"kernel {kernel.kernel_id} is {kernel.status}", hint=hint)
        return kernel, kernel.agent_id

    async def relay(self, websocket: WebSocket, principal: AuthenticatedPrincipal, execution: KernelExecution) -> int:
        """Relay input and output until the command ends or the client disconnects."""
        output = asyncio.create_task(_relay_output(websocket, execution))
        others = [asyncio.create_task(_relay_input(websocket, execution)), asyncio.create_task(self._guard(principal))]
        try:
            await asyncio.wait([output, *others], return_when=asyncio.FIRST_COMPLETED)
            for task in others:
                if task.done() and not output.done():
                    task.result()
            await output
            return await execution.wait()
        finally:
            for task in (output, *others):
                task.cancel()
            await asyncio.gather(output, *others, return_exceptions=True)

    async def _guard(self, principal: AuthenticatedPrincipal) -> None:
        """Raise once the key is revoked, or the server is stopping."""
        with self._streams.hub.listening(principal.user) as listener:
            while not self._streams.hub.closing:
                await self._streams.pause(listener, UNTIL_WOKEN)
                listener.take()
                await self._streams.require_key(principal)
        raise StoreUnavailable("the server is stopping")


class ExecSocket(KernelSocket):
    """Runs commands for callers that may change the session."""

    async def run(self, websocket: WebSocket) -> None:
        """Run one command, from its request to its exit code."""
        principal = principal_of(websocket.scope)
        self._streams.hub.require_room(principal.user)
        try:
            kernel, agent_id = await self.running(
                principal, websocket.path_params["ref"], websocket.path_params["index"]
            )
        except ObjectNotFound as error:
            await self._auditor.denied(websocket, error)
            raise
        with self._command_limits.taken(principal.user, agent_id):
            await self._serve(websocket, principal, kernel, agent_id)

    async def _serve(
        self, websocket: WebSocket, principal: AuthenticatedPrincipal, kernel: KernelRecord, agent_id: AgentId
    ) -> None:
        # A page that offers its proof as a protocol needs one to be chosen, and never that one.
        is_offered = EXEC_PROTOCOL in websocket.scope.get("subprotocols", ())
        await websocket.accept(EXEC_PROTOCOL if is_offered else None)
        try:
            code = await self._executed(websocket, principal, kernel, agent_id)
        except (WebSocketDisconnect, TimeoutError):
            return
        except BodyTooLarge as error:
            await send_last(websocket, problem_of(error, principal.request_id), TOO_BIG)
        except AgentRefused as error:
            await send_last(websocket, problem_of(ExecFailed(error.message), principal.request_id), POLICY_VIOLATION)
        except SokovanError as error:
            await send_last(websocket, problem_of(error, principal.request_id), POLICY_VIOLATION)
        else:
            await send_last(websocket, {"exit_code": code}, NORMAL)

    async def _executed(
        self, websocket: WebSocket, principal: AuthenticatedPrincipal, kernel: KernelRecord, agent_id: AgentId
    ) -> int:
        async with asyncio.timeout(FIRST_MESSAGE_S):
            request = read_request(await next_message(websocket))
        # Only the program: arguments may contain secrets.
        entry = audit_entry(principal, "session.exec", kernel.kernel_id, program=request.command[0])
        await self._store.run(lambda unit: unit.audit.append(entry))
        execution = self._gateway.execute(
            agent_id, kernel.kernel_id, kernel.attempt, request.command, terminal=request.terminal
        )
        async with execution:
            if request.terminal:
                await execution.resize(rows=request.rows, columns=request.columns)
            return await self.relay(websocket, principal, execution)


async def _relay_output(websocket: WebSocket, execution: KernelExecution) -> None:
    async for content in execution.output():
        for frame in frames_of(content):
            await websocket.send_bytes(frame)


async def _relay_input(websocket: WebSocket, execution: KernelExecution) -> None:
    """Relay input. Raises WebSocketDisconnect when the client disconnects."""
    while True:
        message = await next_message(websocket)
        if isinstance(message, bytes):
            await execution.write(message)
            continue
        rows, columns = read_size(message)
        await execution.resize(rows=rows, columns=columns)


async def next_message(websocket: WebSocket) -> bytes | str:
    """The next message. Raises WebSocketDisconnect, BodyTooLarge."""
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", NORMAL))
    content: bytes | str | None = message.get("bytes")
    content = message.get("text", "") if content is None else content
    if len(content) > FRAME_MAX:
        raise BodyTooLarge(limit=FRAME_MAX)
    return content


async def send_last(websocket: WebSocket, last: object, code: int) -> None:
    """Send the last message and close."""
    with suppress(WebSocketDisconnect, RuntimeError):  # the client has disconnected
        await websocket.send_text(msgspec.json.encode(last).decode())
        await websocket.close(code)
