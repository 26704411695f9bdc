"""What every AgentGateway promises about further commands in a running kernel."""

from __future__ import annotations

import asyncio

from sokovan.domain.ids import KernelId
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable
from sokovan.ports.runtime import KernelExecution
from sokovan.testing.clock import outcome
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.agent_gateway import NOBODY, GatewaySubject
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


async def _heard(execution: KernelExecution) -> bytes:
    return b"".join([piece async for piece in execution.output()])


async def a_command_gets_its_input_and_gives_its_output(subject: GatewaySubject) -> None:
    """Every byte, in order, up to the end of input; and then its exit code."""
    launch = subject.lasting("commanded")
    await subject.create(launch)
    sent = bytes(range(256)) * 2048
    async with _run(subject, launch, *ECHO) as command:
        hearing = asyncio.ensure_future(_heard(command))
        await command.write(b"first ")
        await command.write(sent)
        await command.write(b"")
        heard = await outcome(hearing, elapse=subject.elapse)
        expect(heard == b"first " + sent, f"{len(heard)} bytes came back, or others than were sent")
        expect(await outcome(command.wait(), elapse=subject.elapse) == 0, "the exit code is another")
    await subject.end(launch)


async def a_command_tells_its_exit_code(subject: GatewaySubject) -> None:
    """Also to who does not listen to what it says."""
    launch = subject.lasting("failing")
    await subject.create(launch)
    async with _run(subject, launch, *FAILING) as command:
        expect(await outcome(command.wait(), elapse=subject.elapse) == 1, "the exit code is another")
        expect(await outcome(_heard(command), elapse=subject.elapse) == b"", "it said something")
        await command.write(b"too late")
        await command.resize(rows=1, columns=1)
    await subject.end(launch)


async def a_command_may_have_a_terminal(subject: GatewaySubject) -> None:
    """Which may be resized at any time, and repeats what is typed."""
    launch = subject.lasting("typed")
    await subject.create(launch)
    async with _run(subject, launch, *ECHO, terminal=True) as command:
        await command.resize(rows=12, columns=34)
        await command.write(b"hello\n")
        await command.write(b"")
        expect(b"hello" in await outcome(_heard(command), elapse=subject.elapse), "it does not repeat what is typed")
        expect(await outcome(command.wait(), elapse=subject.elapse) == 0, "the exit code is another")
    await subject.end(launch)


async def a_command_ends_when_it_is_left_and_its_kernel_goes_on(subject: GatewaySubject) -> None:
    """Nobody has to wait for it."""
    launch = subject.lasting("left-alone")
    await subject.create(launch)
    async with _run(subject, launch, *LASTING):
        pass
    async with _run(subject, launch, *FAILING) as command:
        expect(await outcome(command.wait(), elapse=subject.elapse) == 1, "the kernel takes no further command")
    expect(not (await subject.stop(launch)).gone, "the kernel ended with the command")
    await subject.end(launch)


async def a_command_ends_with_its_kernel(subject: GatewaySubject) -> None:
    """It is ended as the kernel's own processes are."""
    launch = subject.lasting("short-lived")
    await subject.create(launch)
    async with _run(subject, launch, *LASTING) as command:
        await subject.end(launch)
        expect(await outcome(command.wait(), elapse=subject.elapse) in ENDED, "the exit code is another")


async def commands_do_not_hear_each_other(subject: GatewaySubject) -> None:
    """Several at once in one kernel, each with its own input."""
    launch = subject.lasting("shared")
    await subject.create(launch)

    async def echoed(number: int) -> bytes:
        async with _run(subject, launch, *ECHO) as command:
            await command.write(b"%d" % number * 1000)
            await command.write(b"")
            return await _heard(command)

    heard = await outcome(asyncio.gather(*(echoed(number) for number in range(5))), elapse=subject.elapse)
    expect(heard == [b"%d" % number * 1000 for number in range(5)], "a command heard what was meant for another")
    await subject.end(launch)


async def a_command_needs_a_running_kernel(subject: GatewaySubject) -> None:
    """AgentRefused without one, AgentUnreachable without an agent; when it is entered."""
    launch = subject.lasting("over")
    await subject.create(launch)
    await subject.end(launch)
    for command in (_run(subject, launch, *ECHO), _run(subject, subject.lasting("never-was"), *ECHO)):
        try:
            async with command:
                pass
        except AgentRefused:
            continue
        raise AssertionError("a command was run in a kernel that does not run")
    try:
        async with subject.gateway.execute(NOBODY, KernelId("k"), 1, ECHO, terminal=False):
            pass
    except AgentUnreachable:
        return
    raise AssertionError("an agent that never was has run a command")


COMMAND_CHECKS = (
    a_command_gets_its_input_and_gives_its_output,
    a_command_tells_its_exit_code,
    a_command_may_have_a_terminal,
    a_command_ends_when_it_is_left_and_its_kernel_goes_on,
    a_command_ends_with_its_kernel,
    commands_do_not_hear_each_other,
    a_command_needs_a_running_kernel,
)
