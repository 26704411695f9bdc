"""A command inside a running kernel, over a WebSocket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.websockets import WebSocket, WebSocketDisconnect

from sokovan.api.app import close_streams
from sokovan.api.errors import BodyTooLarge
from sokovan.api.routes.streams.exec import next_message, send_last
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.wire.api.execution import FRAME_MAX
from tests.unit.api.api_harness import ApiHarness, Socket, add_key, api_harness, domain_admin, member, quick
from tests.unit.api.fake_agents import EchoExecution

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")
ECHO = json.dumps({"command": ["echo", "hi"]})


async def last(socket: Socket) -> tuple[Any, int]:
    """The last message and the code of the close, output passed over."""
    text: Any = None
    while True:
        message = await socket.hear()
        if message["type"] == "websocket.close":
            return text, message["code"]
        text = json.loads(message["text"]) if message.get("text") is not None else text


async def refused(api: ApiHarness, path: str, user: str) -> tuple[int, str]:
    """The answer to a socket that is not opened."""
    async with api.socket(path, user=user) as socket:
        start, body = await socket.hear(), await socket.hear()
        return start["status"], json.loads(body["body"])["code"]


@pytest.mark.slow
async def test_input_goes_in_output_comes_out_and_the_exit_code_is_last(api: ApiHarness) -> None:
    await api.run("shell", NORTH)
    async with api.socket("/sessions/shell/kernels/0/exec", user=NORTH) as socket:
        assert (await socket.hear())["type"] == "websocket.accept"
        socket.say(ECHO)
        assert (await socket.hear())["bytes"] == b"echo hi\n"
        socket.say(b"more")
        assert (await socket.hear())["bytes"] == b"MORE"
        socket.say(b"")
        assert await last(socket) == ({"exit_code": 7}, 1000)
    execution = api.agents.executions[-1]
    assert (execution.kernel, execution.terminal, execution.ended) == (("a1", "shell.0", 1), False, True)
    assert (NORTH, "session.exec", "shell.0", "done") in await api.audited()


@pytest.mark.slow
async def test_a_terminal_has_a_size_and_may_change_it(api: ApiHarness) -> None:
    await api.run("terminal", NORTH)
    async with api.socket("/sessions/terminal/kernels/0/exec", user=NORTH) as socket:
        await socket.hear()
        socket.say(json.dumps({"command": ["sh"], "terminal": True, "rows": 50, "columns": 100}))
        await socket.hear()
        execution = api.agents.executions[-1]
        assert (execution.terminal, execution.size) == (True, (50, 100))
        socket.say(json.dumps({"resize": [10, 20]}))
        socket.say(b"")
        await last(socket)
        assert execution.size == (10, 20)


async def test_who_leaves_ends_the_command(api: ApiHarness) -> None:
    await api.run("left", NORTH)
    async with api.socket("/sessions/left/kernels/0/exec", user=NORTH) as socket:
        await socket.hear()
        socket.say(ECHO)
        await socket.hear()
    assert api.agents.executions[-1].ended


async def test_a_domain_admin_may_run_a_command_and_another_user_may_not(api: ApiHarness) -> None:
    await api.run("guarded", NORTH)
    path = "/sessions/guarded/kernels/0/exec"
    assert await refused(api, path, SOUTH) == (404, "not-found")
    assert (await api.audited())[-1][::3] == (SOUTH, "denied")
    async with api.socket(path, user=domain_admin("north")) as socket:
        assert (await socket.hear())["type"] == "websocket.accept"


async def test_a_user_runs_a_limited_number_of_commands_at_one_agent() -> None:
    async with api_harness(streams=quick(commands_per_agent_max=1)) as api:
        await api.run("busy", NORTH)
        path = "/sessions/busy/kernels/0/exec"
        async with api.socket(path, user=NORTH) as socket:
            assert (await socket.hear())["type"] == "websocket.accept"
            assert await refused(api, path, NORTH) == (429, "too-many-streams")
            async with api.socket(path, user=domain_admin("north")) as other:
                assert (await other.hear())["type"] == "websocket.accept"


async def test_only_a_running_kernel_takes_commands(api: ApiHarness) -> None:
    await api.submit("waits", NORTH)
    assert await refused(api, "/sessions/waits/kernels/0/exec", NORTH) == (409, "conflict")
    assert await refused(api, "/sessions/waits/kernels/5/exec", NORTH) == (404, "not-found")


@pytest.mark.parametrize(
    "first",
    [
        "",
        "{}",
        "[]",
        '{"command": []}',
        '{"command": "sh"}',
        '{"command": [""]}',
        '{"command": ["a\\u0000b"]}',
        '{"command": ["sh"], "rows": 0}',
        '{"command": ["sh"], "columns": 99999}',
        '{"command": ["sh"], "shell": true}',
        b"\xff",
    ],
)
async def test_a_first_message_that_says_nothing_is_refused(api: ApiHarness, first: str | bytes) -> None:
    name = api.cluster.new("x")
    await api.run(name, NORTH)
    before = len(api.agents.executions)
    async with api.socket(f"/sessions/{name}/kernels/0/exec", user=NORTH) as socket:
        await socket.hear()
        socket.say(first)
        problem, code = await last(socket)
    assert (problem["status"], code) == (422, 1008)
    assert problem["hint"]
    assert len(api.agents.executions) == before


@pytest.mark.parametrize("later", ["{}", '{"resize": [1]}', '{"resize": [0, 5]}', "nonsense"])
async def test_a_later_message_that_says_nothing_ends_the_command(api: ApiHarness, later: str) -> None:
    name = api.cluster.new("x")
    await api.run(name, NORTH)
    async with api.socket(f"/sessions/{name}/kernels/0/exec", user=NORTH) as socket:
        await socket.hear()
        socket.say(ECHO)
        socket.say(later)
        problem, code = await last(socket)
    assert (problem["status"], code) == (422, 1008)
    assert api.agents.executions[-1].ended


async def test_a_frame_that_is_too_large_ends_the_command(api: ApiHarness) -> None:
    await api.run("flooded", NORTH)
    async with api.socket("/sessions/flooded/kernels/0/exec", user=NORTH) as socket:
        await socket.hear()
        socket.say(ECHO)
        socket.say(b"x" * (FRAME_MAX + 1))
        problem, code = await last(socket)
    assert (problem["code"], code) == ("body-too-large", 1009)


async def test_a_revoked_key_ends_the_command(api: ApiHarness) -> None:
    await api.run("revoked", NORTH)
    key = await add_key(api, NORTH, named="short")
    async with api.socket("/sessions/revoked/kernels/0/exec", user="short") as socket:
        await socket.hear()
        socket.say(ECHO)
        await socket.hear()
        await api.call("DELETE", f"/keys/{key}")
        problem, code = await last(socket)
    assert (problem["code"], code) == ("unauthenticated", 1008)
    assert api.agents.executions[-1].ended


@pytest.mark.slow
async def test_a_server_that_stops_ends_the_command() -> None:
    async with api_harness() as api:
        await api.run("stopped", NORTH)
        async with api.socket("/sessions/stopped/kernels/0/exec", user=NORTH) as socket:
            await socket.hear()
            socket.say(ECHO)
            await socket.hear()
            close_streams(api.app)
            problem, _ = await last(socket)
            assert problem["status"] == 503


async def test_a_program_that_is_not_there_is_said_with_what_to_do(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.run("bare", NORTH)

    async def missing(_execution: object) -> None:
        raise AgentRefused(agent_id="a1", problem="nosuch cannot be run: No such file or directory")

    monkeypatch.setattr(EchoExecution, "__aenter__", missing)
    async with api.socket("/sessions/bare/kernels/0/exec", user=NORTH) as socket:
        await socket.hear()
        socket.say(json.dumps({"command": ["nosuch"]}))
        problem, code = await last(socket)
    assert (problem["code"], problem["status"], code) == ("exec-failed", 409, 1008)
    assert "No such file" in problem["detail"]
    assert "inside the kernel" in problem["hint"]


class Line:
    """A socket that has received these messages, and keeps what is sent."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self._messages = iter([{"type": "websocket.connect"}, *messages])
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        return next(self._messages)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def accepted(self) -> WebSocket:
        websocket = WebSocket({"type": "websocket", "headers": []}, self.receive, self.send)
        await websocket.accept()
        return websocket


async def test_messages_are_bytes_or_text_and_not_too_large() -> None:
    line = Line(
        {"type": "websocket.receive", "bytes": b""},
        {"type": "websocket.receive", "text": "hello"},
        {"type": "websocket.receive", "bytes": b"x" * (FRAME_MAX + 1)},
        {"type": "websocket.disconnect", "code": 1001},
    )
    websocket = await line.accepted()
    assert await next_message(websocket) == b""
    assert await next_message(websocket) == "hello"
    with pytest.raises(BodyTooLarge):
        await next_message(websocket)
    with pytest.raises(WebSocketDisconnect):
        await next_message(websocket)


async def test_the_last_message_comes_before_the_end_and_a_client_who_left_is_no_trouble() -> None:
    line = Line()
    websocket = await line.accepted()
    await send_last(websocket, {"exit_code": 3}, 1000)
    assert [message["type"] for message in line.sent] == ["websocket.accept", "websocket.send", "websocket.close"]
    assert line.sent[1]["text"] == '{"exit_code":3}'
    await send_last(websocket, {"exit_code": 3}, 1000)
