"""Starts programs: the kernel itself, and further commands inside it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import termios

from sokovan.adapters.process.shim import system_calls
from sokovan.adapters.process.shim.control_groups import ControlGroups, write_text
from sokovan.adapters.process.shim.machine_folders import folder_failure, open_folder
from sokovan.adapters.process.shim.processes import read_text
from sokovan.adapters.process.shim.thread_account import rights_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

NOT_STARTED = 127
# The code of a folder that cannot be used, also that of the agent's error.
PATH_FAILED = "path-unavailable"
# If the machine runs out of memory, a kernel is killed before its shim and the agent.
_MEMORY_KILLER_SCORE = "500"
_OPEN_FILES_MIN = 3
_IGNORED_LINE = "SigIgn:"
_CHILD_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_SETTABLE_SIGNALS = frozenset(map(int, signal.valid_signals())) - {signal.SIGKILL, signal.SIGSTOP}
_KERNEL_UMASK = 0o022
# In place of the second character of an option: bubblewrap ends at options that it does not know.
_UNKNOWN = b"?"


class NotStarted(Exception):
    """A program could not be started; the message is the reason.

    `code` says whose fault it is: that of the sandbox, or that of the program's name.
    """

    def __init__(self, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.code = code


class Child:
    """The environment, limits and sandbox of programs in a kernel."""

    def __init__(self, plan: dict[str, Any], groups: ControlGroups) -> None:
        self.arguments: list[str] = plan["arguments"]
        self.environment: dict[str, str] = plan["environment"]
        self.folder: str = plan["folder"]
        self.rlimits: list[list[int]] = plan["rlimits"]
        self.sandbox: dict[str, Any] | None = plan["sandbox"]
        self.filter = bytes.fromhex(self.sandbox["filter"]) if self.sandbox else b""
        self.account: dict[str, Any] | None = plan.get("account")
        self.groups = groups
        # The sandbox reports the exit code of the kernel here, and nothing if it failed itself.
        self.sandbox_status, self._status_end = os.pipe() if self.sandbox else (-1, -1)

    def start_kernel(self, output: int) -> int:
        """Start the kernel and return its pid; raises NotStarted."""
        shim = os.getpid()
        number = self.account["number"] if self.account else None
        folders = _opened((self.sandbox or {}).get("folders", ()), number)
        # Opened before the processes of others are out of reach.
        namespaces = [os.open(path, os.O_RDONLY) for path in (self.account["namespaces"] if self.account else ())]
        if self.sandbox and self.sandbox["separate"]:
            # This process too: its kernel and further commands must reach the sockets of one another.
            system_calls.separate()

        def become() -> None:
            _reset_signals()
            os.setsid()
            system_calls.die_with_parent(signal.SIGKILL)
            if os.getppid() != shim:
                os._exit(NOT_STARTED)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.umask(_KERNEL_UMASK)
            self._confine()
            if self.account:
                os.setgroups([])
            _use_streams((nothing, output, output))
            if self.sandbox is None:
                self._run(self.arguments, self.environment)
            self._run_in_sandbox(self.sandbox, folders, namespaces)

        try:
            if self.sandbox and self.sandbox.get("spawned"):  # an agent of an earlier release does not say
                return self._spawned(self.sandbox, output, folders, namespaces)
            return _forked(become)
        finally:
            for handle in (*folders, *namespaces):
                os.close(handle)
            if self.sandbox is not None:
                os.close(self._status_end)

    def _spawned(self, sandbox: dict[str, Any], output: int, folders: list[int], namespaces: list[int]) -> int:
        """Start the sandbox without a copy of this process, which costs more than the rest of it.

        It waits for its options at a pipe, until it is in its groups and has its limits. Should
        this process be killed before that, the first option is unknown, and the sandbox ends.
        """
        if self.account:
            os.setgroups([])
        gate, opener = os.pipe()
        files = [gate]
        try:
            text = _joined(self._options(sandbox, folders, namespaces, files))
            files.append(_anonymous_file(text[:1] + _UNKNOWN + text[2:]))
            os.set_inheritable(gate, True)  # noqa: FBT003  # the standard library's own signature
            arguments = [sandbox["program"], "--args", str(gate), "--args", str(files[-1]), "--", *self.arguments]
            pid = _spawn(arguments, sandbox["environment"], output)
            try:
                self._confine(pid)
            except OSError as error:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise NotStarted(str(error)) from error
            os.pwrite(files[-1], text[1:2], 1)
        finally:
            os.close(opener)
            for handle in files:
                os.close(handle)
        return pid

    def start_command(self, arguments: list[str], streams: tuple[int, int, int], *, terminal: bool, inside: int) -> int:
        """Start a command and return its pid; it enters the namespaces of `inside`."""

        def become() -> None:
            _reset_signals()
            os.setsid()
            os.umask(_KERNEL_UMASK)
            self._confine()
            _use_streams(streams)
            if terminal:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            if inside:
                system_calls.enter_namespaces(inside)
                _fork_again()
                self._become_account()
                system_calls.drop_capabilities()
            environment = {**self.environment, "TERM": "xterm-256color"} if terminal else self.environment
            self._run(arguments, environment)

        return _forked(become)

    def _become_account(self) -> None:
        """Take the account of the kernel, in its user namespace."""
        if self.account:
            number = self.account["number"]
            os.setgroups([])
            os.setresgid(number, number, number)
            os.setresuid(number, number, number)

    def _confine(self, pid: int = 0) -> None:
        """Set the groups and limits of a process, or of this one; raises OSError."""
        self.groups.join(pid)
        with contextlib.suppress(OSError):
            write_text(f"/proc/{pid or 'self'}/oom_score_adj", _MEMORY_KILLER_SCORE)
        for kind, soft, hard in self.rlimits:
            resource.prlimit(pid, kind, (soft, hard))

    def _run(self, arguments: list[str], environment: dict[str, str]) -> NoReturn:
        os.chdir(self.folder)
        system_calls.forbid_new_privileges()
        if self.filter:
            system_calls.filter_calls(self.filter)
        _execute_program(arguments, environment)

    def _run_in_sandbox(self, sandbox: dict[str, Any], folders: list[int], namespaces: list[int]) -> NoReturn:
        handle = _anonymous_file(_joined(self._options(sandbox, folders, namespaces, [])))
        os.chdir("/")
        program = sandbox["program"]
        arguments = [program, "--args", str(handle), "--", *self.arguments]
        os.execve(program, arguments, sandbox["environment"])  # noqa: S606  # an argv list, no shell

    def _options(
        self, sandbox: dict[str, Any], folders: list[int], namespaces: list[int], files: list[int]
    ) -> list[str]:
        """The options of the sandbox, which are passed in an anonymous file; adds what is opened to `files`.

        Variables as arguments could be read by every user; as the environment of the sandbox
        program they would affect the program itself, which runs outside.
        """
        # A number stands for an open folder: what was checked is what is bound.
        options = [str(folders[one]) if isinstance(one, int) else one for one in sandbox["options"]]
        for handle in (*folders, *namespaces, self._status_end):
            os.set_inheritable(handle, True)  # noqa: FBT003  # the standard library's own signature
        for name, value in self.environment.items():
            options += ["--setenv", name, value]
        if self.account:
            options = [*account_options(self.account["number"], namespaces), *options]
        if self.filter:
            files.append(_anonymous_file(self.filter))
            options += ["--seccomp", str(files[-1])]
        return [*options, "--json-status-fd", str(self._status_end)]


def _joined(options: list[str]) -> bytes:
    """Options as the text of a file."""
    return os.fsencode("".join(f"{option}\0" for option in options))


def account_options(number: int, namespaces: Sequence[int]) -> list[str]:
    """The options of a sandbox for an account with these user namespaces.

    `--block-fd` and `--sync-fd` are given only because they close the descriptors before
    the kernel runs.
    """
    outer, inner = map(str, namespaces)
    return [
        *["--userns", outer, "--userns2", inner, "--uid", str(number), "--gid", str(number)],
        *["--block-fd", outer, "--sync-fd", inner],
    ]


def _opened(paths: Sequence[str], account: int | None) -> list[int]:
    """The folders at these paths, open; raises NotStarted.

    An account opens what it may enter by itself: the shim has more rights.
    """
    handles: list[int] = []
    for path in paths:
        try:
            with rights_of(account):
                handles.append(open_folder(path))
        except OSError as error:
            for handle in handles:
                os.close(handle)
            raise NotStarted(folder_failure(path, error), PATH_FAILED) from error
    return handles


def _forked(become: Callable[[], None]) -> int:
    """Fork and call `become`, which must not return; raises its error as NotStarted."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become()
        except BaseException as error:  # noqa: BLE001  # reported to the parent
            os.write(writer, (str(error) or type(error).__name__).encode(errors="replace")[:4000])
        finally:
            os._exit(NOT_STARTED)
    os.close(writer)
    problem = _read_to_end(reader)
    if problem:
        os.waitpid(pid, 0)
        raise NotStarted(problem.decode(errors="replace"))
    return pid


def _spawn(arguments: list[str], environment: dict[str, str], output: int) -> int:
    """Start a program in a session of its own, without input; raises NotStarted."""
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        *((os.POSIX_SPAWN_DUP2, output, target) for target in (1, 2)),
    ]
    before = os.umask(_KERNEL_UMASK)
    try:
        return os.posix_spawn(
            arguments[0],
            arguments,
            environment,
            file_actions=streams,
            setsid=True,
            setsigmask=(),
            setsigdef=_SETTABLE_SIGNALS,
        )
    except (OSError, ValueError) as error:
        raise NotStarted(str(error)) from error
    finally:
        os.umask(before)


def _fork_again() -> None:
    """Fork a child, which is in the new pid namespace; the parent passes its end on."""
    # Signals are for the child; the parent must live to report its end.
    for number in _CHILD_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        _reset_signals()
        return
    # The pipe of the start must close when the child runs, and the streams belong to the child.
    os.closerange(0, 256)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(status if status >= 0 else 128 - status)


def _reset_signals() -> None:
    """Restore default dispositions: ignored signals survive exec, also those of `nohup`.

    Handlers do not, so that the others need no call each.
    """
    signal.set_wakeup_fd(-1)
    for number in _ignored_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _ignored_signals() -> list[int]:
    """The signals that this process ignores; all if the system does not say."""
    listed = [line for line in read_text("/proc/self/status").splitlines() if line.startswith(_IGNORED_LINE)]
    known = [number for number in range(1, signal.NSIG) if number not in {signal.SIGKILL, signal.SIGSTOP}]
    if not listed:
        return known
    mask = int(listed[0].removeprefix(_IGNORED_LINE), 16)
    return [number for number in known if mask >> (number - 1) & 1]


def _use_streams(streams: tuple[int, int, int]) -> None:
    # Duplicated first: a stream may itself be number 0, 1 or 2.
    above = [fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, _OPEN_FILES_MIN) for stream in streams]
    for target, stream in enumerate(above):
        os.dup2(stream, target)


def _execute_program(arguments: list[str], environment: dict[str, str]) -> NoReturn:
    """Execute a program found on the PATH of its own environment; raises OSError."""
    name = arguments[0]
    folders = [""] if "/" in name else [f"{folder}/" for folder in environment.get("PATH", "").split(":") if folder]
    failure: OSError = FileNotFoundError(2, "is not on PATH", name)
    for folder in folders:
        try:
            os.execve(folder + name, arguments, environment)  # noqa: S606  # an argv list, no shell
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failure = error
    raise failure


def _anonymous_file(content: bytes) -> int:
    handle = os.memfd_create("sandbox", 0)
    _write_all(handle, content)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _write_all(handle: int, content: bytes) -> None:
    while content:
        content = content[os.write(handle, content) :]


def _read_to_end(handle: int) -> bytes:
    pieces = []
    while piece := os.read(handle, 4096):
        pieces.append(piece)
    os.close(handle)
    return b"".join(pieces)
