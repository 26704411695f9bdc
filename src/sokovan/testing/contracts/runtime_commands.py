"""Contract of `ports.runtime.KernelRuntime` for commands, connections and use."""

from __future__ import annotations

import asyncio
import socket

from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelRuntime, KernelState, KernelUse, RuntimeFailure
from sokovan.testing.clock import until
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.runtime import DEAF, LIMIT_S, SLEEP, RuntimeSubject, ended, output, said, seen

# Prints its port, and answers each connection with what it received, in capitals.
ECHOING = """
import socket
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            received = b""
            while piece := connection.recv(65536):
                received += piece
            connection.sendall(received.upper())
"""
# Holds some memory, and computes.
BUSY_BYTES = 16 << 20
BUSY = f"""
held = bytearray({BUSY_BYTES})
held[::4096] = bytes(range(256)) * ({BUSY_BYTES} // 4096 // 256)
print("up", flush=True)
while True:
    sum(range(10_000))
"""


async def a_further_command_runs_inside_the_kernel(subject: RuntimeSubject) -> None:
    """With the kernel's folder and variables, its own input, output and exit code."""
    runtime = await subject.make()
    await runtime.create(subject.launch("host", SLEEP, environment={"A": "b"}, files={"f": "file"}))
    script = "import os, sys; print(os.environ['A'], open('f').read(), sys.stdin.read()); sys.exit(3)"
    async with runtime.execute(KernelId("host"), 1, ("python", "-c", script), terminal=False) as command:
        await command.write(b"input")
        await command.write(b"")
        printed = b"".join([piece async for piece in command.output()])
        expect(printed == b"b file input\n", f"the output is {printed!r}")
        expect(await command.wait() == 3, "its exit code is another")
    await runtime.stop(KernelId("host"), 1, grace_s=0)
    await ended(subject, runtime, "host")
    expect(b"file" not in await output(runtime, "host"), "its output went into the kernel's")


async def a_further_command_may_have_a_terminal(subject: RuntimeSubject) -> None:
    """Of the requested size."""
    runtime = await subject.make()
    await runtime.create(subject.launch("tty", SLEEP))
    script = "import os, sys; sys.stdin.readline(); print(os.isatty(0), tuple(os.get_terminal_size(1)))"
    async with runtime.execute(KernelId("tty"), 1, ("python", "-c", script), terminal=True) as command:
        await command.resize(rows=12, columns=34)
        await command.write(b"\n")
        printed = b"".join([piece async for piece in command.output()])
        expect(b"True (34, 12)" in printed, f"the output is {printed!r}")
        expect(await command.wait() == 0, "its exit code is another")
    await runtime.stop(KernelId("tty"), 1, grace_s=0)
    await ended(subject, runtime, "tty")


async def a_further_command_ends_with_its_kernel(subject: RuntimeSubject) -> None:
    """No process outlives its kernel."""
    runtime = await subject.make()
    await runtime.create(subject.launch("short-lived", SLEEP))
    async with runtime.execute(KernelId("short-lived"), 1, ("python", "-c", DEAF), terminal=False) as command:
        async for piece in command.output():
            expect(piece == b"up\n", f"the output is {piece!r}")
            break
        await runtime.stop(KernelId("short-lived"), 1, grace_s=0)
        async with asyncio.timeout(LIMIT_S):
            expect(await command.wait() == 137, "a command that ended with its kernel has another exit code")
    await ended(subject, runtime, "short-lived")


async def a_further_command_ends_when_its_context_exits(subject: RuntimeSubject) -> None:
    """Only this command."""
    runtime = await subject.make()
    script = (
        "import os, signal, time, pathlib\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "while True:\n    pathlib.Path('beat').write_text(str(time.monotonic_ns()))\n    print('up', flush=True)\n"
        "    time.sleep(0.01)"
    )
    watch = "import pathlib; print(pathlib.Path('beat').read_text())"
    await runtime.create(subject.launch("stays", SLEEP))
    async with runtime.execute(KernelId("stays"), 1, ("python", "-c", script), terminal=False) as command:
        async for _ in command.output():
            break

    async def beats_no_more() -> bool:
        beats = []
        for _ in range(2):
            async with runtime.execute(KernelId("stays"), 1, ("python", "-c", watch), terminal=False) as watcher:
                beats.append(b"".join([piece async for piece in watcher.output()]))
        return beats[0] == beats[1]

    await until(beats_no_more, elapse=subject.elapse, limit_s=LIMIT_S)
    found = await seen(runtime, "stays")
    expect(found is not None and found.state is KernelState.RUNNING, "the kernel ended with the command")
    await runtime.stop(KernelId("stays"), 1, grace_s=0)
    await ended(subject, runtime, "stays")


async def a_further_command_needs_a_running_kernel(subject: RuntimeSubject) -> None:
    """RuntimeFailure for unknown and ended kernels, and unknown programs."""
    runtime = await subject.make()
    await runtime.create(subject.launch("over", "pass"))
    await ended(subject, runtime, "over")
    await runtime.create(subject.launch("there", SLEEP))
    for name, program in (("nobody", "python"), ("over", "python"), ("there", "there-is-no-such-program")):
        try:
            async with runtime.execute(KernelId(name), 1, (program,), terminal=False):
                pass
        except RuntimeFailure:
            continue
        raise AssertionError(f"{program} was run in {name}")
    await runtime.stop(KernelId("there"), 1, grace_s=0)
    await ended(subject, runtime, "there")


async def a_port_of_a_kernel_is_reached(subject: RuntimeSubject) -> None:
    """Bytes travel in both directions, and the end of one side is seen by the other."""
    runtime = await subject.make()
    await runtime.create(subject.launch("serves", ECHOING))
    port = await _listening_port(subject, runtime, "serves")
    async with runtime.connect(KernelId("serves"), 1, port) as connection:
        await connection.write(b"abc")
        await connection.write(b"")
        received = b"".join([piece async for piece in connection.output()])
        expect(received == b"ABC", f"the port sent {received!r}")
        expect(await connection.wait() == 0, "the connection has an exit code")
    await runtime.stop(KernelId("serves"), 1, grace_s=0)
    await ended(subject, runtime, "serves")


async def a_port_of_another_is_not_reached(subject: RuntimeSubject) -> None:
    """RuntimeFailure if the kernel does not listen there, or has ended."""
    runtime = await subject.make()
    await runtime.create(subject.launch("serves", ECHOING))
    await runtime.create(subject.launch("other", SLEEP))
    await runtime.create(subject.launch("over", "pass"))
    await ended(subject, runtime, "over")
    port = await _listening_port(subject, runtime, "serves")
    for name, number in (("other", port), ("over", port), ("nobody", port), ("serves", _free_port())):
        try:
            async with runtime.connect(KernelId(name), 1, number):
                pass
        except RuntimeFailure:
            continue
        raise AssertionError(f"port {number} was reached as one of {name}")
    for name in ("serves", "other"):
        await runtime.stop(KernelId(name), 1, grace_s=0)
        await ended(subject, runtime, name)


async def a_kernel_does_not_start_where_another_listens(subject: RuntimeSubject) -> None:
    """A port that is leased to it is free at its start, or it leaves nothing."""
    runtime = await subject.make()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        try:
            await runtime.create(subject.launch("late", SLEEP, ports=(port,)))
        except RuntimeFailure as problem:
            expect(problem.code == "port-taken", f"it is refused for another reason: {problem}")
        else:
            raise AssertionError("it was started")
    expect(await seen(runtime, "late") is None, "something of it is left")


async def a_busy_kernel_uses_cpu_and_memory(subject: RuntimeSubject) -> None:
    """Its CPU time grows; its processes are counted."""
    runtime = await subject.make()
    await runtime.create(subject.launch("busy", BUSY))
    await said(subject, runtime, "busy", b"up")
    found: list[KernelUse] = []

    async def has_grown() -> bool:
        found.append(await runtime.measure(KernelId("busy"), 1))
        first, last = found[0].cpu_ms, found[-1].cpu_ms
        return first is not None and last is not None and last >= first + 50

    await until(has_grown, elapse=subject.elapse, limit_s=LIMIT_S)
    last = found[-1]
    expect(last.sampled_ms >= found[0].sampled_ms > 0, f"the times are {found[0].sampled_ms} and {last.sampled_ms}")
    expect(last.memory_bytes is not None and last.memory_bytes >= BUSY_BYTES, f"it holds {last.memory_bytes} bytes")
    expect(last.processes is not None and last.processes >= 1, f"it has {last.processes} processes")
    await runtime.stop(KernelId("busy"), 1, grace_s=0)
    await ended(subject, runtime, "busy")
    await _not_measured(runtime, "busy")


async def an_unknown_kernel_is_not_measured(subject: RuntimeSubject) -> None:
    """RuntimeFailure, not figures of nothing."""
    await _not_measured(await subject.make(), "nobody")


async def _not_measured(runtime: KernelRuntime, name: str) -> None:
    try:
        use = await runtime.measure(KernelId(name), 1)
    except RuntimeFailure:
        return
    raise AssertionError(f"{name} uses {use}")


async def _listening_port(subject: RuntimeSubject, runtime: KernelRuntime, name: str) -> int:
    """The port that an ECHOING kernel has printed."""
    printed = b""

    async def has_printed() -> bool:
        nonlocal printed
        printed = await output(runtime, name)
        return b"\n" in printed

    await until(has_printed, elapse=subject.elapse, limit_s=LIMIT_S)
    return int(printed)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


CHECKS = (
    a_further_command_runs_inside_the_kernel,
    a_further_command_may_have_a_terminal,
    a_further_command_ends_with_its_kernel,
    a_further_command_ends_when_its_context_exits,
    a_further_command_needs_a_running_kernel,
    a_port_of_a_kernel_is_reached,
    a_port_of_another_is_not_reached,
    a_kernel_does_not_start_where_another_listens,
    a_busy_kernel_uses_cpu_and_memory,
    an_unknown_kernel_is_not_measured,
)
