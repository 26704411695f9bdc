"""Contract of `ports.runtime.KernelRuntime`.

A check takes a RuntimeSubject whose image has a `python`; each uses its own kernels.
The creator of the subject ends kernels that a failed check leaves running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sokovan.domain.ids import KernelId, SessionId
from sokovan.ports.runtime import (
    ImageUnavailable,
    KernelRuntime,
    KernelState,
    Observation,
    RuntimeFailure,
)
from sokovan.testing.clock import until
from sokovan.testing.contracts import Subject, expect
from sokovan.wire.frames import CreateKernel

GRACE_S = 20.0
LIMIT_S = 180.0
LOG_BYTES_MAX = 64 << 10
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('up', flush=True)
while True:
    time.sleep(600)
"""
# Leaves with the number of letters of the reason in its notice, divided by two.
SAVES = """
import json, os, signal, sys, time
def leave(*_):
    with open(os.environ["SOKOVAN_NOTICE"]) as file:
        reason = json.load(file)["reason"]
    with open(os.environ["SOKOVAN_CHECKPOINT"], "w") as file:
        file.write('{"step": 7}')
    sys.exit(len(reason) // 2)
signal.signal(signal.SIGTERM, leave)
print('up', flush=True)
time.sleep(600)
"""
DONE = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(os.environ["SOKOVAN_CHECKPOINT"], "w") as file:
    file.write('{"done": true}')
print('up', flush=True)
while True:
    time.sleep(600)
"""
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print('up', flush=True)
time.sleep(600)
"""


@dataclass(frozen=True, slots=True)
class RuntimeSubject(Subject[KernelRuntime]):
    """A runtime, and an image that contains `python`.

    A runtime without `streams_in_order` keeps the order of each output stream, but not between the two.
    """

    image: str = "host"
    streams_in_order: bool = True

    def launch(self, name: str, script: str, **changes: Any) -> CreateKernel:
        """A kernel that runs a Python script."""
        return CreateKernel(
            kernel_id=KernelId(name),
            attempt=changes.pop("attempt", 1),
            session_id=SessionId(f"session-of-{name}"),
            image=self.image,
            command=("python", "-c", script),
            **changes,
        )


async def seen(runtime: KernelRuntime, name: str, *, attempt: int = 1) -> Observation | None:
    """The observed kernel, or None."""
    for observation in await runtime.observe():
        if observation.kernel_id == name and observation.attempt == attempt:
            return observation
    return None


async def ended(subject: RuntimeSubject, runtime: KernelRuntime, name: str) -> Observation:
    """Wait until the kernel has ended."""
    found: list[Observation] = []

    async def is_over() -> bool:
        observation = await seen(runtime, name)
        expect(observation is not None, f"{name} is not observed")
        if observation is not None and observation.state is KernelState.EXITED:
            found.append(observation)
        return bool(found)

    await until(is_over, elapse=subject.elapse, limit_s=LIMIT_S)
    return found[0]


async def output(runtime: KernelRuntime, name: str) -> bytes:
    """The retained output of a kernel."""
    pieces, offset = [], 0
    while True:
        part = await runtime.read_log(KernelId(name), 1, offset=offset, limit=1 << 20)
        pieces.append(part.data)
        if not part.data:
            return b"".join(pieces)
        offset = part.offset + len(part.data)


async def said(subject: RuntimeSubject, runtime: KernelRuntime, name: str, text: bytes) -> None:
    """Wait until a kernel has printed `text`."""

    async def has_said() -> bool:
        return text in await output(runtime, name)

    await until(has_said, elapse=subject.elapse, limit_s=LIMIT_S)


async def a_kernel_runs_and_reports_its_exit_code(subject: RuntimeSubject) -> None:
    """RUNNING while it runs, then EXITED with its code."""
    runtime = await subject.make()
    await runtime.create(subject.launch("runs", "import sys; print('up', flush=True); sys.stdin.read(); sys.exit(42)"))
    over = await ended(subject, runtime, "runs")
    expect(over.exit_code == 42, f"exit code {over.exit_code}, not 42")
    expect(over.reason == "", f"a kernel that exited has the reason {over.reason!r}")
    expect(over.started_ms and over.ended_ms and over.started_ms <= over.ended_ms, "its times are not in order")


async def a_running_kernel_is_observed_as_running(subject: RuntimeSubject) -> None:
    """With its start time and its confinement."""
    runtime = await subject.make()
    await runtime.create(subject.launch("sleeps", SLEEP))
    found = await seen(runtime, "sleeps")
    expect(found is not None and found.state is KernelState.RUNNING, f"it is seen as {found}")
    expect(found is not None and found.started_ms and found.exit_code is None, "a running kernel has no exit code")
    expect(found is not None and found.confinement, "its confinement is missing")
    await runtime.stop(KernelId("sleeps"), 1, grace_s=0)
    await ended(subject, runtime, "sleeps")


async def a_killed_kernel_reports_the_signal(subject: RuntimeSubject) -> None:
    """128 plus the signal number."""
    runtime = await subject.make()
    await runtime.create(subject.launch("killed", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    over = await ended(subject, runtime, "killed")
    expect(over.exit_code == 137, f"exit code {over.exit_code}, not 137")
    expect(over.reason == "signal 9", f"reason {over.reason!r}, not 'signal 9'")


async def creating_twice_starts_once(subject: RuntimeSubject) -> None:
    """Also concurrently, by two clients, and after the end."""
    runtime, other = await subject.make(), await subject.make()
    launch = subject.launch("once", "print('started', flush=True)")
    await asyncio.gather(*(client.create(launch) for client in (runtime, other, runtime, other)))
    await ended(subject, runtime, "once")
    await other.create(launch)
    expect(await output(runtime, "once") == b"started\n", "the kernel was started more than once")
    expect(sum(one.kernel_id == "once" for one in await runtime.observe()) == 1, "it is observed more than once")


async def another_attempt_is_another_kernel(subject: RuntimeSubject) -> None:
    """Each has its own exit."""
    runtime = await subject.make()
    for attempt in (1, 2):
        await runtime.create(subject.launch("again", f"raise SystemExit({attempt})", attempt=attempt))
    await ended(subject, runtime, "again")

    async def both_ended() -> bool:
        found = [one for one in await runtime.observe() if one.kernel_id == "again"]
        return [(one.attempt, one.exit_code) for one in found] == [(1, 1), (2, 2)]

    await until(both_ended, elapse=subject.elapse, limit_s=LIMIT_S)


async def a_refused_creation_leaves_nothing(subject: RuntimeSubject) -> None:
    """RuntimeFailure; the same kernel may be created correctly afterwards."""
    runtime = await subject.make()
    good = subject.launch("refused", "raise SystemExit(0)")
    bad = CreateKernel(good.kernel_id, 1, good.session_id, good.image, ("there-is-no-such-program",))
    await _refused(runtime, bad)
    expect(await seen(runtime, "refused") is None, "a kernel that was refused is observed")
    await runtime.create(good)
    await ended(subject, runtime, "refused")


async def _refused(runtime: KernelRuntime, launch: CreateKernel) -> None:
    try:
        await runtime.create(launch)
    except RuntimeFailure:
        return
    raise AssertionError(f"{launch} was not refused")


async def an_invalid_launch_is_refused(subject: RuntimeSubject) -> None:
    """Names, commands, variables, files and mounts are validated."""
    runtime = await subject.make()
    changes: list[dict[str, Any]] = [
        {"environment": {"A=B": "1"}},
        {"environment": {"A": "1\0"}},
        {"files": {"../out": "x"}},
        {"files": {"/etc/out": "x"}},
        {"files": {"a/../../out": "x"}},
        {"workdir": "../out"},
    ]
    for change in changes:
        await _refused(runtime, subject.launch("impossible", "pass", **change))
    for command in ((), ("",), ("python", "-c", "\0")):
        await _refused(runtime, CreateKernel(KernelId("impossible"), 1, SessionId("s"), subject.image, command))
    await _refused(runtime, subject.launch("../impossible", "pass"))
    expect(await seen(runtime, "impossible") is None, "a kernel that cannot be is observed")


async def a_stop_lets_a_kernel_exit_gracefully(subject: RuntimeSubject) -> None:
    """Its own exit code counts."""
    runtime = await subject.make()
    await runtime.create(subject.launch("polite", POLITE))
    await said(subject, runtime, "polite", b"up\n")
    await runtime.stop(KernelId("polite"), 1, grace_s=GRACE_S)
    over = await ended(subject, runtime, "polite")
    expect(over.exit_code == 7, f"exit code {over.exit_code}, not the 7 of its handler")


async def a_stop_kills_a_kernel_after_its_grace_period(subject: RuntimeSubject) -> None:
    """If it ignores the signal."""
    runtime = await subject.make()
    await runtime.create(subject.launch("deaf", DEAF))
    await said(subject, runtime, "deaf", b"up\n")
    await runtime.stop(KernelId("deaf"), 1, grace_s=0.3)
    over = await ended(subject, runtime, "deaf")
    expect(over.exit_code == 137, f"exit code {over.exit_code}, not 137")


async def a_kernel_finds_the_notice_before_it_is_asked_to_stop(subject: RuntimeSubject) -> None:
    """The checkpoint that it then reports is observed, also after its end."""
    runtime = await subject.make()
    await runtime.create(subject.launch("noticed", SAVES))
    await said(subject, runtime, "noticed", b"up\n")
    found = await seen(runtime, "noticed")
    expect(found is not None and found.checkpoint is None, f"a checkpoint is observed: {found}")
    await runtime.stop(KernelId("noticed"), 1, grace_s=GRACE_S, notice='{"reason": "preempt"}')
    over = await ended(subject, runtime, "noticed")
    expect(over.exit_code == 3, f"exit code {over.exit_code}: it did not find the notice")
    saved = over.checkpoint
    expect(saved is not None and (saved.step, saved.done) == (7, False), f"the checkpoint is {saved}")


async def a_kernel_that_is_done_does_not_wait_for_the_end_of_its_grace_period(subject: RuntimeSubject) -> None:
    """Only after a notice."""
    runtime = await subject.make()
    await runtime.create(subject.launch("done", DONE))
    await said(subject, runtime, "done", b"up\n")
    await runtime.stop(KernelId("done"), 1, grace_s=1000 * GRACE_S, notice='{"reason": "preempt"}')
    over = await ended(subject, runtime, "done")
    expect(over.exit_code == 137, f"exit code {over.exit_code}, not 137")
    expect(over.checkpoint is not None and over.checkpoint.done, f"the checkpoint is {over.checkpoint}")


async def a_stopping_kernel_is_observed_as_stopping(subject: RuntimeSubject) -> None:
    """Within the grace period; a second stop may shorten it."""
    runtime = await subject.make()
    await runtime.create(subject.launch("stopping", DEAF))
    await said(subject, runtime, "stopping", b"up\n")
    await runtime.stop(KernelId("stopping"), 1, grace_s=1000 * GRACE_S)
    found = await seen(runtime, "stopping")
    expect(found is not None and found.state is KernelState.STOPPING, f"it is seen as {found}")
    await runtime.stop(KernelId("stopping"), 1, grace_s=0)
    await ended(subject, runtime, "stopping")


async def stopping_a_missing_kernel_is_no_error(subject: RuntimeSubject) -> None:
    """Neither unknown nor ended kernels."""
    runtime = await subject.make()
    await runtime.stop(KernelId("nobody"), 1, grace_s=0)
    await runtime.create(subject.launch("short", "pass"))
    over = await ended(subject, runtime, "short")
    await runtime.stop(KernelId("short"), 1, grace_s=0)
    expect(await seen(runtime, "short") == over, "a stop changed a kernel that had ended")


async def another_client_sees_the_same_kernels(subject: RuntimeSubject) -> None:
    """In the order of their ids, and may stop them."""
    runtime = await subject.make()
    for name in ("z", "a/b:c@d+e", "m"):
        await runtime.create(subject.launch(name, SLEEP))
    other = await subject.make()
    found = await other.observe()
    names = [one.kernel_id for one in found]
    expect({"z", "a/b:c@d+e", "m"} <= set(names), f"another client sees {names}")
    expect(names == sorted(names), f"the order is {names}")
    for name in ("z", "a/b:c@d+e", "m"):
        await other.stop(KernelId(name), 1, grace_s=0)
        await ended(subject, runtime, name)


async def output_is_kept_in_order(subject: RuntimeSubject) -> None:
    """Both streams in one; parts concatenate to the whole."""
    runtime = await subject.make()
    script = "import os\nfor n in range(50):\n    os.write(1 + n % 2, b'line %d\\n' % n)"
    await runtime.create(subject.launch("speaks", script))
    await ended(subject, runtime, "speaks")
    whole = b"".join(b"line %d\n" % number for number in range(50))
    kept = await output(runtime, "speaks")
    if not subject.streams_in_order:
        lines = kept.splitlines(keepends=True)
        for stream in (0, 1):
            of_stream = [line for line in lines if int(line.split()[1]) % 2 == stream]
            expect(of_stream == whole.splitlines(keepends=True)[stream::2], f"stream {stream} is not in order")
        expect(len(kept) == len(whole), "output is missing")
        whole = kept
    expect(kept == whole, "output is missing, or not in order")
    pieces, offset = [], 0
    while True:
        part = await runtime.read_log(KernelId("speaks"), 1, offset=offset, limit=7)
        expect(part.offset == offset and len(part.data) <= 7, f"requested 7 bytes from {offset}, got {part}")
        pieces.append(part.data)
        offset += len(part.data)
        if part.end:
            break
    expect(b"".join(pieces) == whole, "output in pieces is not the whole")


async def the_end_of_output_is_reported_only_after_the_end(subject: RuntimeSubject) -> None:
    """A silent kernel has not ended."""
    runtime = await subject.make()
    await runtime.create(subject.launch("silent", SLEEP))
    await said(subject, runtime, "silent", b"up\n")
    part = await runtime.read_log(KernelId("silent"), 1, offset=3, limit=10)
    expect(part.data == b"" and not part.end, f"a running kernel's output ends: {part}")
    await runtime.stop(KernelId("silent"), 1, grace_s=0)
    await ended(subject, runtime, "silent")
    part = await runtime.read_log(KernelId("silent"), 1, offset=3, limit=10)
    expect(part.data == b"" and part.end, f"the output of an ended kernel does not end: {part}")


async def a_long_log_keeps_the_newest(subject: RuntimeSubject) -> None:
    """Up to the limit; offsets keep counting."""
    runtime = await subject.make()
    lines = 40_000
    script = f"import sys\nfor n in range({lines}):\n    sys.stdout.write('%07d\\n' % n)"
    await runtime.create(subject.launch("floods", script, log_bytes_max=LOG_BYTES_MAX))
    await ended(subject, runtime, "floods")
    part = await runtime.read_log(KernelId("floods"), 1, offset=0, limit=1)
    expect(part.offset > 0, "nothing was dropped")
    kept = await output(runtime, "floods")
    expect(LOG_BYTES_MAX // 2 <= len(kept) <= LOG_BYTES_MAX, f"{len(kept)} bytes are kept of {LOG_BYTES_MAX} allowed")
    expect(part.offset + len(kept) == 8 * lines, "offsets do not count what was dropped")
    expect(kept.endswith(b"%07d\n" % (lines - 1)), "the newest is missing")


async def the_log_of_an_unknown_kernel_is_an_error(subject: RuntimeSubject) -> None:
    """RuntimeFailure, not an empty log."""
    runtime = await subject.make()
    try:
        await runtime.read_log(KernelId("nobody"), 1, offset=0, limit=1)
    except RuntimeFailure:
        return
    raise AssertionError("an unknown kernel has a log")


async def a_forgotten_kernel_is_never_created_again(subject: RuntimeSubject) -> None:
    """The same attempt is refused; forgetting twice is no error."""
    runtime = await subject.make()
    launch = subject.launch("forgotten", "pass")
    await runtime.create(launch)
    await ended(subject, runtime, "forgotten")
    await runtime.forget(KernelId("forgotten"), 1)
    await runtime.forget(KernelId("forgotten"), 1)
    expect(await seen(runtime, "forgotten") is None, "a forgotten kernel is observed")
    await _refused(await subject.make(), launch)
    await runtime.create(subject.launch("forgotten", "pass", attempt=2))


async def forgetting_a_running_kernel_does_nothing(subject: RuntimeSubject) -> None:
    """A running kernel is always listed."""
    runtime = await subject.make()
    await runtime.create(subject.launch("alive", SLEEP))
    await runtime.forget(KernelId("alive"), 1)
    found = await seen(runtime, "alive")
    expect(found is not None and found.state is KernelState.RUNNING, f"after a forget it is seen as {found}")
    await runtime.stop(KernelId("alive"), 1, grace_s=0)
    await ended(subject, runtime, "alive")


async def a_kernel_finds_its_files_and_variables(subject: RuntimeSubject) -> None:
    """Files below its working folder; variables of its launch, none of the host."""
    runtime = await subject.make()
    script = (
        "import os, pathlib\n"
        "print(pathlib.Path('a/b.txt').read_text(), os.environ['GREETING'], os.environ['SOKOVAN_KERNEL_ID'],\n"
        "      os.environ['SOKOVAN_SESSION_ID'], os.path.samefile(os.environ['HOME'], '.'))\n"
        "pathlib.Path(os.environ['TMPDIR'], 'x').write_text('x')\n"
        "print([name for name in os.environ if name.startswith(('LD_', 'PYTHON', 'PYTEST'))])"
    )
    variables = {"GREETING": "hällo $(id) `id` ; \n'\""}
    await runtime.create(subject.launch("finds", script, files={"a/b.txt": "téxt"}, environment=variables))
    over = await ended(subject, runtime, "finds")
    text = (await output(runtime, "finds")).decode()
    expect(over.exit_code == 0, f"it failed: {text}")
    expect(text == f"téxt {variables['GREETING']} finds session-of-finds True\n[]\n", f"it found {text!r}")


async def a_kernel_starts_in_the_requested_folder(subject: RuntimeSubject) -> None:
    """A folder below its own."""
    runtime = await subject.make()
    script = "import os; print(os.path.relpath('.', os.environ['HOME']))"
    await runtime.create(subject.launch("below", script, workdir="a/b"))
    await ended(subject, runtime, "below")
    expect(await output(runtime, "below") == b"a/b\n", f"it starts in {await output(runtime, 'below')!r}")


async def an_image_is_known_or_not(subject: RuntimeSubject) -> None:
    """A ready image needs no work; an unknown one is ImageUnavailable."""
    runtime = await subject.make()
    expect(await runtime.has_image(subject.image), "the subject's image is not ready")
    lines: list[str] = []
    await runtime.prepare_image(subject.image, lines.append)
    unknown = "no-such-kind/../of:image"
    asked: list[Callable[[], Any]] = [
        lambda: runtime.has_image(unknown),
        lambda: runtime.prepare_image(unknown, lines.append),
        lambda: runtime.create(CreateKernel(KernelId("unknown"), 1, SessionId("s"), unknown, ("python",))),
    ]
    for ask in asked:
        try:
            await ask()
        except ImageUnavailable:
            continue
        raise AssertionError("an unknown image was taken")


CHECKS = (
    a_kernel_runs_and_reports_its_exit_code,
    a_running_kernel_is_observed_as_running,
    a_killed_kernel_reports_the_signal,
    creating_twice_starts_once,
    another_attempt_is_another_kernel,
    a_refused_creation_leaves_nothing,
    an_invalid_launch_is_refused,
    a_stop_lets_a_kernel_exit_gracefully,
    a_stop_kills_a_kernel_after_its_grace_period,
    a_kernel_finds_the_notice_before_it_is_asked_to_stop,
    a_kernel_that_is_done_does_not_wait_for_the_end_of_its_grace_period,
    a_stopping_kernel_is_observed_as_stopping,
    stopping_a_missing_kernel_is_no_error,
    another_client_sees_the_same_kernels,
    output_is_kept_in_order,
    the_end_of_output_is_reported_only_after_the_end,
    a_long_log_keeps_the_newest,
    the_log_of_an_unknown_kernel_is_an_error,
    a_forgotten_kernel_is_never_created_again,
    forgetting_a_running_kernel_does_nothing,
    a_kernel_finds_its_files_and_variables,
    a_kernel_starts_in_the_requested_folder,
    an_image_is_known_or_not,
)
