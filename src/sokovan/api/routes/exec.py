"""A command inside a running kernel, over a WebSocket.

The first message says what to run. Then binary frames are input, an empty one is its
end, and text frames tell the size of the terminal; binary frames back are output, and
the last message is the exit code or a problem.
"""

from __future__ import annotations

import asyncio

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from sokovan.api.access.auditing import audit_entry
from sokovan.api.access.authentication import AuthenticatedPrincipal, principal_of
from sokovan.api.access.lookup import kernel_at, read_session
from sokovan.api.context import ApiContext
from sokovan.api.errors import BodyTooLarge, ExecFailed
from sokovan.api.middleware import POLICY_VIOLATION
from sokovan.api.problems import problem_of
from sokovan.api.routes.exec_frames import NORMAL, next_message, read_request, read_size, say_last
from sokovan.api.streaming.event_streams import UNTIL_WOKEN
from sokovan.domain.errors import Conflict, ObjectNotFound, SokovanError, StoreUnavailable
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.records import KernelRecord
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.ports.runtime import KernelExecution
from sokovan.wire.api.execution import frames_of

PATH = "/api/v1/sessions/{ref}/kernels/{index:int}/exec"
FIRST_MESSAGE_S = 10.0
TOO_BIG = 1009


class ExecSocket:
    """Runs commands for whoever may change the session."""

    def __init__(self, context: ApiContext) -> None:
        self._parts, self._streams, self._auditor = context.parts, context.streams, context.auditor

    def route(self) -> WebSocketRoute:
        """The route, which OpenAPI has no words for."""
        return WebSocketRoute(PATH, self.run, name="sessions_exec")

    async def run(self, websocket: WebSocket) -> None:
        """One command, from its first message to its exit code."""
        asker = principal_of(websocket.scope)
        self._streams.hub.require_room(asker.access_key)
        try:
            found = await self._running(asker, websocket.path_params["ref"], websocket.path_params["index"])
        except ObjectNotFound as error:
            await self._auditor.denied(websocket, error)
            raise
        await websocket.accept()
        try:
            code = await self._executed(websocket, asker, *found)
        except (WebSocketDisconnect, TimeoutError):
            return
        except BodyTooLarge as error:
            await say_last(websocket, problem_of(error, asker.request_id), TOO_BIG)
        except AgentRefused as error:
            await say_last(websocket, problem_of(ExecFailed(error.message), asker.request_id), POLICY_VIOLATION)
        except SokovanError as error:
            await say_last(websocket, problem_of(error, asker.request_id), POLICY_VIOLATION)
        else:
            await say_last(websocket, {"exit_code": code}, NORMAL)

    async def _running(self, asker: AuthenticatedPrincipal, ref: str, index: int) -> tuple[KernelRecord, AgentId]:
        record = await read_session(self._parts.store, ref, asker)
        kernel = kernel_at(record, index)
        if kernel.status is not KernelStatus.RUNNING or kernel.agent_id is None:
            hint = "a command runs in a kernel that is running"
            raise Conflict(f"kernel {kernel.kernel_id} is {kernel.status}", hint=hint)
        return kernel, kernel.agent_id

    async def _executed(
        self, websocket: WebSocket, asker: AuthenticatedPrincipal, kernel: KernelRecord, agent_id: AgentId
    ) -> int:
        async with asyncio.timeout(FIRST_MESSAGE_S):
            wanted = read_request(await next_message(websocket))
        # The program alone: what follows it may be a secret.
        entry = audit_entry(asker, "session.exec", kernel.kernel_id, program=wanted.command[0])
        await self._parts.store.run(lambda unit: unit.audit.append(entry))
        execution = self._parts.gateway.execute(
            agent_id, kernel.kernel_id, kernel.attempt, wanted.command, terminal=wanted.terminal
        )
        async with execution:
            if wanted.terminal:
                await execution.resize(rows=wanted.rows, columns=wanted.columns)
            return await self._conversed(websocket, asker, execution)

    async def _conversed(self, websocket: WebSocket, asker: AuthenticatedPrincipal, execution: KernelExecution) -> int:
        """Carry input and output until the command ends, the client leaves, or the key is revoked."""
        said = asyncio.create_task(_carry_output(websocket, execution))
        others = [asyncio.create_task(_carry_input(websocket, execution)), asyncio.create_task(self._guard(asker))]
        try:
            await asyncio.wait([said, *others], return_when=asyncio.FIRST_COMPLETED)
            for task in others:
                if task.done() and not said.done():
                    task.result()
            await said
            return await execution.wait()
        finally:
            for task in (said, *others):
                task.cancel()
            await asyncio.gather(said, *others, return_exceptions=True)

    async def _guard(self, asker: AuthenticatedPrincipal) -> None:
        """Raises once the key is revoked, or the server stops."""
        with self._streams.hub.listening(asker.access_key) as listener:
            while not self._streams.hub.closing:
                await self._streams.pause(listener, UNTIL_WOKEN)
                listener.take()
                await self._streams.require_key(asker)
        raise StoreUnavailable("the server stops")


async def _carry_output(websocket: WebSocket, execution: KernelExecution) -> None:
    async for content in execution.output():
        for frame in frames_of(content):
            await websocket.send_bytes(frame)


async def _carry_input(websocket: WebSocket, execution: KernelExecution) -> None:
    """Raises WebSocketDisconnect when the client leaves."""
    while True:
        message = await next_message(websocket)
        if isinstance(message, bytes):
            await execution.write(message)
            continue
        rows, columns = read_size(message)
        await execution.resize(rows=rows, columns=columns)
