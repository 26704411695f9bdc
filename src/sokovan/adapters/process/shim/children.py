"""Starting programs: the kernel itself, and further commands inside it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import termios

from sokovan.adapters.process.shim import system_calls
from sokovan.adapters.process.shim.control_groups import ControlGroups, write_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

NOT_STARTED = 127
# When memory runs out on the whole machine, a kernel goes before its shim and the agent.
_MEMORY_KILLER_SCORE = "500"
_OPEN_FILES_MIN = 3
_FOR_THE_CHILD = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


class NotStarted(Exception):
    """A program could not be started; says why."""


class Child:
    """What a program needs to run in a kernel: surroundings, limits, sandbox."""

    def __init__(self, plan: dict[str, Any], groups: ControlGroups) -> None:
        self.arguments: list[str] = plan["arguments"]
        self.environment: dict[str, str] = plan["environment"]
        self.folder: str = plan["folder"]
        self.rlimits: list[list[int]] = plan["rlimits"]
        self.sandbox: dict[str, Any] | None = plan["sandbox"]
        self.groups = groups

    def start_kernel(self, output: int) -> int:
        """The pid of the kernel's first process; raises NotStarted."""
        shim = os.getpid()

        def become() -> None:
            _reset_signals()
            os.setsid()
            system_calls.die_with_parent(signal.SIGKILL)
            if os.getppid() != shim:
                os._exit(NOT_STARTED)
            nothing = os.open(os.devnull, os.O_RDONLY)
            self._confine()
            _take_streams((nothing, output, output))
            if self.sandbox is None:
                self._run(self.arguments, self.environment)
            self._run_in_sandbox(self.sandbox)

        return _forked(become)

    def start_command(self, arguments: list[str], streams: tuple[int, int, int], *, terminal: bool, inside: int) -> int:
        """The pid of a further command; `inside` is a process whose namespaces it enters."""

        def become() -> None:
            _reset_signals()
            os.setsid()
            self._confine()
            _take_streams(streams)
            if terminal:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            if inside:
                system_calls.enter_namespaces(inside)
                _fork_again()
                system_calls.drop_capabilities()
            environment = {**self.environment, "TERM": "xterm-256color"} if terminal else self.environment
            self._run(arguments, environment)

        return _forked(become)

    def _confine(self) -> None:
        os.umask(0o022)
        self.groups.join()
        with contextlib.suppress(OSError):
            write_text("/proc/self/oom_score_adj", _MEMORY_KILLER_SCORE)
        for kind, soft, hard in self.rlimits:
            resource.setrlimit(kind, (soft, hard))

    def _run(self, arguments: list[str], environment: dict[str, str]) -> NoReturn:
        os.chdir(self.folder)
        system_calls.gain_no_privileges()
        _replace_program(arguments, environment)

    def _run_in_sandbox(self, sandbox: dict[str, Any]) -> NoReturn:
        """The variables reach the sandbox through a file without a name.

        In its arguments everybody could read them; in its environment they would act
        on the sandbox itself, which stands outside still.
        """
        options = list(sandbox["options"])
        for name, value in self.environment.items():
            options += ["--setenv", name, value]
        handle = os.memfd_create("options", 0)
        _write_all(handle, b"".join(os.fsencode(option) + b"\0" for option in options))
        os.lseek(handle, 0, os.SEEK_SET)
        os.chdir("/")
        program = sandbox["program"]
        arguments = [program, "--args", str(handle), "--", *self.arguments]
        os.execve(program, arguments, sandbox["environment"])  # noqa: S606  # an argv list, and no shell


def _forked(become: Callable[[], None]) -> int:
    """Fork and call `become`, which must not return; its trouble is raised here."""
    far, near = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become()
        except BaseException as error:  # noqa: BLE001  # whatever it is, the parent must hear of it
            os.write(near, (str(error) or type(error).__name__).encode(errors="replace")[:4000])
        finally:
            os._exit(NOT_STARTED)
    os.close(near)
    trouble = _read_to_end(far)
    if trouble:
        os.waitpid(pid, 0)
        raise NotStarted(trouble.decode(errors="replace"))
    return pid


def _fork_again() -> None:
    """A process enters other pids only as a child; the parent hands its end through."""
    # Signals are for the child; its parent must live to tell how it ended.
    for number in _FOR_THE_CHILD:
        signal.signal(number, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        _reset_signals()
        return
    # Whoever waits for the start must see the pipe close when the child runs, and our streams are the child's.
    os.closerange(0, 256)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(status if status >= 0 else 128 - status)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _take_streams(streams: tuple[int, int, int]) -> None:
    # Out of the way first: a stream may itself be number 0, 1 or 2.
    above = [fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, _OPEN_FILES_MIN) for stream in streams]
    for target, stream in enumerate(above):
        os.dup2(stream, target)


def _replace_program(arguments: list[str], environment: dict[str, str]) -> NoReturn:
    """Run a program found by the PATH of its own environment; raises OSError."""
    name = arguments[0]
    folders = [""] if "/" in name else [f"{folder}/" for folder in environment.get("PATH", "").split(":") if folder]
    trouble: OSError = FileNotFoundError(2, "is not on PATH", name)
    for folder in folders:
        try:
            os.execve(folder + name, arguments, environment)  # noqa: S606  # an argv list, and no shell
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            trouble = error
    raise trouble


def _write_all(handle: int, content: bytes) -> None:
    while content:
        content = content[os.write(handle, content) :]


def _read_to_end(handle: int) -> bytes:
    pieces = []
    while piece := os.read(handle, 4096):
        pieces.append(piece)
    os.close(handle)
    return b"".join(pieces)
