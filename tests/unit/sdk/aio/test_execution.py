"""A command inside a running kernel, for the async client."""

from __future__ import annotations

import pytest

from sokovan.sdk.aio.execution import AsyncExecution, execute
from sokovan.sdk.core.exec_frames import Terminal
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.errors import Refused, Unauthorized, Unreachable
from tests.unit.sdk.fake_websocket import fake_websocket


async def test_input_goes_there_and_output_comes_back_with_a_code() -> None:
    with fake_websocket() as (fake, endpoint):
        async with await execute(endpoint, "ddp", ["7"], kernel=2, terminal=Terminal(24, 80)) as execution:
            await execution.write(b"abc")
            await execution.resize(Terminal(30, 100))
            await execution.end_input()
            assert [part async for part in execution] == [b"ABC"]
            assert await execution.exit_code() == 7
        assert fake.resized == [[30, 100]]


async def everything(execution: AsyncExecution) -> list[bytes]:
    """All of its output."""
    return [part async for part in execution]


async def test_refusals_and_lost_connections_raise() -> None:
    with fake_websocket() as (_, endpoint):
        async with await execute(endpoint, "ddp", ["refuse"]) as execution:
            with pytest.raises(Refused):
                await everything(execution)
        async with await execute(endpoint, "ddp", ["vanish"]) as execution:
            with pytest.raises(Unreachable):
                await everything(execution)
    with fake_websocket("bad") as (_, endpoint), pytest.raises(Unauthorized):
        await execute(endpoint, "ddp", ["0"])
    with pytest.raises(Unreachable):
        await execute(ServerEndpoint("http://127.0.0.1:1", "t"), "ddp", ["0"])
