"""Contract of `ports.agent_gateway` for further commands in a running kernel."""

from __future__ import annotations

import asyncio

from sokovan.domain.ids import KernelId
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable
from sokovan.ports.runtime import KernelExecution
from sokovan.testing.clock import outcome
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.agent_gateway import UNKNOWN_AGENT, GatewaySubject
from sokovan.wire.frames import CreateKernel

ECHO = ("cat",)
LASTING = ("sleep", "600")
FAILING = ("false",)
# By a signal, SIGTERM or SIGKILL.
ENDED = frozenset({143, 137})


def _run(subject: GatewaySubject, launch: CreateKernel, *command: str, terminal: bool = False) -> KernelExecution:
    return subject.gateway.execute(
        subject.agent_id, KernelId(launch.kernel_id), launch.attempt, command, terminal=terminal
    )


async def _output(execution: KernelExecution) -> bytes:
    return b"".join([piece async for piece in execution.output()])


async def a_command_reads_its_input_and_writes_its_output(subject: GatewaySubject) -> None:
    """Every byte arrives in order until the end of input; then the exit code."""
    launch = subject.long_running("commanded")
    await subject.create(launch)
    sent = bytes(range(256)) * 2048
    async with _run(subject, launch, *ECHO) as command:
        hearing = asyncio.ensure_future(_output(command))
        await command.write(b"first ")
        await command.write(sent)
        await command.write(b"")
        heard = await outcome(hearing, elapse=subject.elapse)
        expect(heard == b"first " + sent, f"{len(heard)} bytes came back, or different ones")
        expect(await outcome(command.wait(), elapse=subject.elapse) == 0, "the exit code is another")
    await subject.end(launch)


async def a_command_returns_its_exit_code(subject: GatewaySubject) -> None:
    """Also if its output is not read."""
    launch = subject.long_running("failing")
    await subject.create(launch)
    async with _run(subject, launch, *FAILING) as command:
        expect(await outcome(command.wait(), elapse=subject.elapse) == 1, "the exit code is another")
        expect(await outcome(_output(command), elapse=subject.elapse) == b"", "it has output")
        await command.write(b"too late")
        await command.resize(rows=1, columns=1)
    await subject.end(launch)


async def a_command_may_have_a_terminal(subject: GatewaySubject) -> None:
    """It can be resized at any time, and echoes input."""
    launch = subject.long_running("typed")
    await subject.create(launch)
    async with _run(subject, launch, *ECHO, terminal=True) as command:
        await command.resize(rows=12, columns=34)
        await command.write(b"hello\n")
        await command.write(b"")
        expect(b"hello" in await outcome(_output(command), elapse=subject.elapse), "it does not repeat what is typed")
        expect(await outcome(command.wait(), elapse=subject.elapse) == 0, "the exit code is another")
    await subject.end(launch)


async def a_command_ends_when_its_context_exits_and_its_kernel_continues(subject: GatewaySubject) -> None:
    """Callers need not wait for it."""
    launch = subject.long_running("left-alone")
    await subject.create(launch)
    async with _run(subject, launch, *LASTING):
        pass
    async with _run(subject, launch, *FAILING) as command:
        expect(await outcome(command.wait(), elapse=subject.elapse) == 1, "the kernel takes no further command")
    expect(not (await subject.stop(launch)).gone, "the kernel ended with the command")
    await subject.end(launch)


async def a_command_ends_with_its_kernel(subject: GatewaySubject) -> None:
    """It is terminated like the kernel's own processes."""
    launch = subject.long_running("short-lived")
    await subject.create(launch)
    async with _run(subject, launch, *LASTING) as command:
        await subject.end(launch)
        expect(await outcome(command.wait(), elapse=subject.elapse) in ENDED, "the exit code is another")


async def concurrent_commands_are_independent(subject: GatewaySubject) -> None:
    """Several run at once in one kernel, each with its own input."""
    launch = subject.long_running("shared")
    await subject.create(launch)

    async def echoed(number: int) -> bytes:
        async with _run(subject, launch, *ECHO) as command:
            await command.write(b"%d" % number * 1000)
            await command.write(b"")
            return await _output(command)

    heard = await outcome(asyncio.gather(*(echoed(number) for number in range(5))), elapse=subject.elapse)
    expect(heard == [b"%d" % number * 1000 for number in range(5)], "a command got the input of another")
    await subject.end(launch)


async def a_command_needs_a_running_kernel(subject: GatewaySubject) -> None:
    """AgentRefused without a kernel, AgentUnreachable without an agent."""
    launch = subject.long_running("over")
    await subject.create(launch)
    await subject.end(launch)
    for command in (_run(subject, launch, *ECHO), _run(subject, subject.long_running("never-was"), *ECHO)):
        try:
            async with command:
                pass
        except AgentRefused:
            continue
        raise AssertionError("a command was run in a kernel that does not run")
    try:
        async with subject.gateway.execute(UNKNOWN_AGENT, KernelId("k"), 1, ECHO, terminal=False):
            pass
    except AgentUnreachable:
        return
    raise AssertionError("an agent that never was has run a command")


COMMAND_CHECKS = (
    a_command_reads_its_input_and_writes_its_output,
    a_command_returns_its_exit_code,
    a_command_may_have_a_terminal,
    a_command_ends_when_its_context_exits_and_its_kernel_continues,
    a_command_ends_with_its_kernel,
    concurrent_commands_are_independent,
    a_command_needs_a_running_kernel,
)
