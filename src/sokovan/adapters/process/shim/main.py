"""The shim: supervises one kernel from its first process to its last descendant."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time

from sokovan.adapters.process.shim import notices, processes, system_calls
from sokovan.adapters.process.shim.children import NOT_STARTED, PATH_FAILED, Child, NotStarted
from sokovan.adapters.process.shim.control_groups import ControlGroups
from sokovan.adapters.process.shim.log_ring import Ring
from sokovan.adapters.process.shim.memory_observer import MemoryObserver
from sokovan.adapters.process.shim.request_listener import RequestListener, ShimRequest
from sokovan.adapters.process.shim.state_files import write_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STATE = "state.json"
LOG = "log"
LOG_DISK_FULL = "log disk full"
# Equal to those of ports.runtime, whose import would cost megabytes.
OUT_OF_MEMORY = "out-of-memory"
PROBABLY_OUT_OF_MEMORY = "probably out-of-memory"
_READ_BYTES = 65536
_WATCH_MS = 50
_KILL_MS = 10
_UNKILLABLE_AFTER_S = 10.0
_RETRY_S = 1.0
_SIGNALLED = 128
_SANDBOX_LIMIT_S = 5.0
_SANDBOX_PAUSE_S = 0.003
_SANDBOX_PAUSE_SHARE = 0.25
# The system kills what is left in a sandbox that has ended. All processes are read only if that takes longer.
_SANDBOX_END_S = 0.1
_FIRST_PROCESS = b'"child-pid"'
_NO_PROGRAM = "bwrap: execvp "
# The account of the kernel may not enter the folder that the session works in.
_NO_FOLDER = "bwrap: Can't chdir to "
# Codes of a start that failed, also those of the agent's errors.
SANDBOX_FAILED = "sandbox-failed"
PROGRAM_FAILED = "program-not-found"
# A start that takes longer is aborted; the agent waits a little longer than this.
START_LIMIT_S = 50
_IGNORED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Shim:
    """Supervises one kernel in a single thread driven by output, requests, exits."""

    def __init__(self, plan: dict[str, Any], folder: int) -> None:
        self.folder = folder
        self.groups = ControlGroups(plan["groups"]["version"], plan["groups"]["folders"])
        self.child = Child(plan, self.groups)
        self.memory = MemoryObserver(plan["rlimits"])
        self.sandboxed = plan["sandbox"] is not None
        with contextlib.suppress(FileExistsError):
            os.mkdir(LOG, 0o700, dir_fd=folder)
        log = os.open(LOG, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        self.ring = Ring(log, plan["log_bytes_max"])
        self.listener = RequestListener(folder)
        self.output, self._output_end = os.pipe()
        os.set_blocking(self.output, False)
        self.poll = select.poll()
        self.pid = 0
        self.status: int | None = None
        self.ended_s = 0.0
        # As of the last look at its children.
        self.childless = False
        self.deadline: float | None = None
        self.ending_since: float | None = None
        self.stop_reason = ""
        self.has_notice = False
        own = processes.look_up(os.getpid())
        self.record: dict[str, Any] = {
            "boot": processes.boot_id(),
            "shim_pid": os.getpid(),
            "shim_start": own.start if own else 0,
            "pipe": os.fstat(self.output).st_ino,
            "reason": "",
        }

    def start(self) -> None:
        """Start the kernel and record it; raises NotStarted or OSError."""
        # Recorded before the kernel exists: if the shim is killed in between, its processes can be found.
        write_record(self.folder, STATE, self.record, lasting=False)
        try:
            with self.groups.unlimited_cpu() if self.sandboxed else contextlib.nullcontext():
                self.pid = self.child.start_kernel(self._output_end)
                os.close(self._output_end)
                if self.sandboxed:
                    self._await_sandbox()
        except NotStarted as error:
            self.record.update(
                ended_ms=_now_ms(), exit_code=NOT_STARTED, signal=None, reason=f"could not start: {error}"[:400]
            )
            write_record(self.folder, STATE, self.record)
            self.groups.remove()
            self.listener.close(self.folder)
            raise
        first = processes.look_up(self.pid)
        self.record.update(pid=self.pid, pid_start=first.start if first else 0, started_ms=_now_ms())
        # It matters until the machine restarts: then the record of the launch proves that the kernel has ended.
        self._write_state(lasting=False)

    def _await_sandbox(self) -> None:
        """Wait until the program of the kernel runs; raises NotStarted if it never does."""
        said = self._said_of_first()
        first = _number_after(_FIRST_PROCESS, said)
        status, begun = select.poll(), time.monotonic()
        status.register(self.child.sandbox_status, select.POLLIN)
        while not first or not any(inner.has_executed for inner in processes.children(first)):
            if b"exit-code" in said:
                return  # it has run and ended already
            if not status.poll(_pause_s(time.monotonic() - begun) * 1000):
                continue
            piece = _read_all(self.child.sandbox_status)
            if not piece:
                os.waitpid(self.pid, 0)
                raise _sandbox_failure(_read_all(self.output))
            said += piece

    def _said_of_first(self) -> bytes:
        """The record of the sandbox about its first process, which stays the same."""
        said = b""
        while b"}" not in said and (piece := _read_all(self.child.sandbox_status)):
            said += piece
        return said

    def hold(self) -> None:
        """Supervise the kernel until nothing of it is left, and record its end."""
        wake_reader, wake_writer = os.pipe()
        for handle in (wake_reader, wake_writer):
            os.set_blocking(handle, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        self._reap()  # children that ended before that
        for handle in (wake_reader, self.output, self.listener.fileno()):
            self.poll.register(handle, select.POLLIN)
        while not self._has_ended():
            for handle, _ in self.poll.poll(self._poll_timeout_ms()):
                if handle == wake_reader:
                    _drain(wake_reader)
                elif handle == self.output:
                    self._read_output()
                elif handle == self.listener.fileno():
                    self._accept()
                elif handle in self.listener.callers:
                    self._handle_request(handle)
            self._reap()
        self._finish()

    def _has_ended(self) -> bool:
        """Whether nothing is left; kills what remains after the deadline."""
        now = time.monotonic()
        if self.status is not None and self.deadline is None:
            self.deadline = now  # the kernel ended by itself: its remaining processes are killed
        if self.has_notice and self.deadline is not None and now < self.deadline and notices.is_done(self.folder):
            self.deadline = now  # nothing is left to do in the rest of the grace period
        if self.deadline is None or (self.status is None and now < self.deadline):
            return False  # scanning the process table is expensive
        if self._is_sandbox_ending(now):
            return False
        left = self._members()
        if now >= self.deadline:
            self.ending_since = self.ending_since or now
            if left:
                self._kill()
                self._reap()
                left = self._members()
        if left and self.ending_since is not None and now - self.ending_since > _UNKILLABLE_AFTER_S:
            self._set_reason(f"does not die: pid {left[0].pid}")
        return self.status is not None and not left

    def _is_sandbox_ending(self, now: float) -> bool:
        """Whether a sandbox has just ended, and what is left of it is being killed."""
        is_recent = self.status is not None and now < self.ended_s + _SANDBOX_END_S
        return self.sandboxed and is_recent and not self._is_childless()

    def _poll_timeout_ms(self) -> int | None:
        if self.deadline is None:
            return None
        return _KILL_MS if self.ending_since is not None else _WATCH_MS

    def _members(self) -> list[processes.Process]:
        """Every process of the kernel. The table of all processes is read only if some may be left."""
        found = {} if self._is_childless() else {one.pid: one for one in processes.descendants(os.getpid())}
        found.update((process.pid, process) for process in self.groups.members())
        return list(found.values())

    def _is_childless(self) -> bool:
        """Whether nothing is below this process: orphans of its children become its own children."""
        return self.childless and not processes.children(os.getpid())

    def _kill(self) -> None:
        self.groups.kill()
        processes.kill_below(os.getpid())

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            self.childless = False
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if pid == self.pid:
                self.status, self.ended_s = code, time.monotonic()
                self.memory.peak = usage.ru_maxrss << 10
            for caller in self.listener.callers.values():
                if caller.command == pid:
                    caller.command = 0
                    caller.answer(exit_code=_exit_code(code))

    def _read_output(self) -> None:
        while True:
            try:
                piece = os.read(self.output, _READ_BYTES)
            except BlockingIOError:
                return
            if not piece:
                self.poll.unregister(self.output)
                return
            self.ring.write(piece)
            self.memory.add_output(piece)
            if self.ring.dropped:
                self._set_reason(LOG_DISK_FULL)
            if len(piece) < _READ_BYTES:
                return

    def _set_reason(self, reason: str) -> None:
        if self.record["reason"] != reason:
            self.record["reason"] = reason
            self._write_state()

    def _write_state(self, *, lasting: bool = True) -> None:
        # A failed write is no loss: this process has the state, and retries at the end.
        with contextlib.suppress(OSError):
            write_record(self.folder, STATE, self.record, lasting=lasting)

    def _accept(self) -> None:
        number = self.listener.accept()
        if number is not None:
            self.poll.register(number, select.POLLIN)

    def _handle_request(self, number: int) -> None:
        caller = self.listener.callers[number]
        try:
            message, files = caller.receive()
        except BlockingIOError:
            return
        except OSError:
            message, files = None, []
        try:
            if message is None:
                self._close_connection(number)
            else:
                self._execute(caller, message, files)
        except (KeyError, TypeError, ValueError, OSError, NotStarted) as error:
            caller.answer(error=f"{error}" or type(error).__name__)
        finally:
            for handle in files:
                os.close(handle)

    def _close_connection(self, number: int) -> None:
        self.poll.unregister(number)
        command = self.listener.close_connection(number).command
        found = processes.look_up(command) if command else None
        if found is not None:
            processes.kill_below(command)
            processes.send(found, signal.SIGKILL)

    def _execute(self, caller: ShimRequest, message: dict[str, Any], files: list[int]) -> None:
        match message.get("do"):
            case "stop":
                self._give_notice(str(message.get("notice") or ""))
                self._stop(float(message["grace_s"]), str(message.get("reason") or ""))
                caller.answer(done=True)
            case "signal":
                os.kill(self.pid, int(message["number"]))
                caller.answer(done=True)
            case "run":
                arguments = [str(argument) for argument in message["arguments"]]
                terminal = bool(message["terminal"])
                streams = (files[0],) * 3 if terminal else (files[0], files[1], files[2])
                inside = self._sandbox_process() if self.sandboxed else 0
                caller.command = self.child.start_command(arguments, streams, terminal=terminal, inside=inside)
                caller.answer(done=True)
            case other:
                caller.answer(error=f"unknown request {other!r}")

    def _sandbox_process(self) -> int:
        """The first process inside the sandbox, whose namespaces a command enters.

        It starts the kernel as its child once the sandbox is complete. Before that the
        machine's own files are visible, and no command may enter.
        """
        deadline = time.monotonic() + _SANDBOX_LIMIT_S
        while time.monotonic() < deadline:
            all_processes = processes.all_processes()
            first = [process.pid for process in all_processes if process.parent == self.pid and process.alive]
            if any(process.parent in first for process in all_processes):
                return first[0]
            time.sleep(_KILL_MS / 1000)
        raise NotStarted("the sandbox did not start, or has ended")

    def _give_notice(self, notice: str) -> None:
        """Write the notice of an eviction, once; the kernel may not be able to receive it."""
        if notice and not self.has_notice:
            self.has_notice = True
            with contextlib.suppress(OSError):
                notices.write_notice(self.folder, notice)

    def _stop(self, grace_s: float, reason: str = "") -> None:
        self.stop_reason = self.stop_reason or reason[:400]
        deadline = time.monotonic() + max(0.0, grace_s)
        is_first = self.deadline is None
        self.deadline = deadline if self.deadline is None else min(self.deadline, deadline)
        if is_first:
            self.record["stopping_ms"] = _now_ms()
            self._write_state()
        # A kernel that the agent ends by itself is killed: it must not write on, and its end is no success.
        for process in () if reason else self._members():
            # The sandbox would kill its kernel at once; it ends when the kernel does.
            if not (self.sandboxed and process.pid == self.pid):
                processes.send(process, signal.SIGTERM)
                processes.send(process, signal.SIGCONT)

    def _finish(self) -> None:
        self._read_last_output()
        status = self.status or 0
        if self.sandboxed and status > _SIGNALLED:
            status = _SIGNALLED - status  # the sandbox reports signals as shells do
        code = _exit_code(status)
        self.record.update(ended_ms=_now_ms(), exit_code=code, signal=-status if status < 0 else None)
        self.record["reason"] = self._reason(status, code)
        deadline = time.monotonic() + _RETRY_S
        while not self.groups.remove() and time.monotonic() < deadline:
            time.sleep(_KILL_MS / 1000)
        # A folder without links was removed: the record is not needed.
        while os.fstat(self.folder).st_nlink > 0:
            try:
                write_record(self.folder, STATE, self.record)
                break
            except OSError:
                time.sleep(_RETRY_S)
        self.listener.close(self.folder)

    def _read_last_output(self) -> None:
        with contextlib.suppress(BlockingIOError, KeyError):
            while piece := os.read(self.output, _READ_BYTES):
                self.ring.write(piece)
                self.memory.add_output(piece)
        self.ring.close()

    def _reason(self, status: int, code: int) -> str:
        if code != 0 and self.stop_reason:
            return self.stop_reason
        if code != 0 and self.groups.killed_for_memory():
            return OUT_OF_MEMORY
        if code != 0 and "stopping_ms" not in self.record and self.memory.is_probable():
            return PROBABLY_OUT_OF_MEMORY
        if status < 0:
            return f"signal {-status}"
        return LOG_DISK_FULL if self.ring.dropped else ""


def _read_all(handle: int) -> bytes:
    """The content of a pipe without writers, up to a limit."""
    return os.read(handle, _READ_BYTES)


def _number_after(name: bytes, said: bytes) -> int:
    """The number that follows a name in a record of the sandbox; 0 without one."""
    number = said.partition(name)[2].lstrip(b" :").partition(b",")[0].rstrip(b" }\n")
    return int(number) if number.isdigit() else 0


def _pause_s(waited_s: float) -> float:
    """The pause before the next look: on a busy machine many looks cost more than the start."""
    return max(_SANDBOX_PAUSE_S, waited_s * _SANDBOX_PAUSE_SHARE)


def _sandbox_failure(said: bytes) -> NotStarted:
    """The failure of a sandbox that ended before its program ran."""
    lines = said.decode(errors="replace").strip().splitlines() or ["it ended without a message"]
    if _NO_FOLDER in lines[-1]:
        return NotStarted(lines[-1].removeprefix("bwrap: "), PATH_FAILED)
    if _NO_PROGRAM in lines[-1]:
        return NotStarted(lines[-1].partition(_NO_PROGRAM)[2].strip(), PROGRAM_FAILED)
    return NotStarted(lines[-1], SANDBOX_FAILED)


def _exit_code(status: int) -> int:
    return status if status >= 0 else _SIGNALLED - status


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _drain(handle: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(handle, 512):
            pass


def read_plan() -> dict[str, Any]:
    """The plan from standard input."""
    pieces = []
    while piece := os.read(0, _READ_BYTES):
        pieces.append(piece)
    plan: dict[str, Any] = json.loads(b"".join(pieces))
    return plan


def main() -> None:
    """Read the plan from standard input, answer on standard output, and supervise."""
    plan = read_plan()
    os.set_inheritable(plan["lock"], False)  # noqa: FBT003  # the standard library's own signature
    if os.fork():
        os._exit(0)  # the agent waits for this process only; the shim is detached
    ignore_signals()
    supervise(plan, plan["lock"])


def ignore_signals() -> None:
    """Ignore signals to the agent's process group or terminal."""
    for number in _IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def supervise(plan: dict[str, Any], lock: int) -> None:
    """Start the kernel, report the outcome, and supervise it to its end."""
    signal.alarm(START_LIMIT_S)
    os.umask(0o077)
    os.chdir("/")
    system_calls.adopt_orphans()
    signal.signal(signal.SIGCHLD, lambda *_: None)  # it wakes this process, which waits for those of its kernel
    folder = os.open(plan["place"], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        shim = Shim(plan, folder)
        shim.start()
    except (NotStarted, OSError) as error:
        _answer({"error": str(error), "code": getattr(error, "code", "")})
        return
    signal.alarm(0)
    # The lock marks a start under way; from here on the record does.
    os.close(lock)
    _detach_streams(folder, shim.record)
    shim.hold()


def _answer(content: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(content).encode())


def _detach_streams(folder: int, record: dict[str, Any]) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    errors = nothing
    with contextlib.suppress(OSError):
        errors = os.open("shim.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    # The record too: its kernel may have removed the file already.
    _answer({"done": True, "record": record})
    for target, handle in enumerate((nothing, nothing, errors)):
        os.dup2(handle, target)
