"""A further command: refused before it is asked for, or by the engine."""

from __future__ import annotations

import contextlib

import pytest

from sokovan.adapters.docker.execution import ContainerExecution
from sokovan.ports.runtime import ProgramNotFound, RuntimeFailure
from sokovan.testing.clock import VirtualClock
from tests.unit.adapters.docker.canned_engine import CannedEngine, canned_engine

EXEC = {"POST /containers/c/exec": (201, {"Id": "e"}), "POST /exec/e/start": (200, b"")}


def execution(engine: CannedEngine, *command: str) -> ContainerExecution:
    """A command in container c."""

    async def container() -> str:
        return "c"

    return ContainerExecution(
        engine.client, container, command, terminal=False, clock=VirtualClock(), presence=contextlib.nullcontext()
    )


async def test_a_command_that_can_not_be_one_is_not_asked_for() -> None:
    async with canned_engine(EXEC) as engine:
        with pytest.raises(RuntimeFailure):
            async with execution(engine, ""):
                pass
        assert engine.asked == []


async def test_a_program_that_is_missing_is_said_so() -> None:
    about = {"Pid": 0, "Running": False, "ExitCode": 127}
    async with canned_engine({**EXEC, "GET /exec/e/json": (200, about)}) as engine:
        with pytest.raises(ProgramNotFound, match="'nothing' was not found"):
            async with execution(engine, "nothing"):
                pass


async def test_a_command_has_the_exit_code_that_the_engine_reports() -> None:
    about = {"Pid": 2**22 + 1, "Running": False, "ExitCode": 3}
    known = {**EXEC, "GET /exec/e/json": (200, about)}
    async with canned_engine(known) as engine, execution(engine, "true") as command:
        assert [piece async for piece in command.output()] == []
        assert await command.wait() == 3


async def test_a_command_that_was_not_started_has_no_exit_code() -> None:
    async with canned_engine() as engine:
        with pytest.raises(RuntimeFailure, match="was not started"):
            await execution(engine, "true").wait()
