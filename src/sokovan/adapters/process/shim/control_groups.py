"""The control groups of one kernel."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from sokovan.adapters.process.shim import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_FREEZE_LIMIT_S = 0.2
_PAUSE_S = 0.002


class ControlGroups:
    """The folders of the kernel's control groups, by controller.

    In version 2 all controllers share one folder; in version 1 each has its own.
    """

    def __init__(self, version: int, folders: dict[str, str]) -> None:
        self.version = version
        self.folders = folders

    def join(self, pid: int = 0) -> None:
        """Move a process, or the calling one, into all of them; raises OSError."""
        for folder in dict.fromkeys(self.folders.values()):
            write_text(f"{folder}/cgroup.procs", str(pid))

    @contextlib.contextmanager
    def unlimited_cpu(self) -> Iterator[None]:
        """Lift the CPU limit inside the block; raises OSError if it cannot be set again.

        The setup of a sandbox takes some milliseconds of CPU time, and a small limit would
        stretch them to some hundred.
        """
        file, unlimited = ("cpu.max", "max") if self.version == 2 else ("cpu.cfs_quota_us", "-1")
        path = f"{self.folders.get('cpu', '')}/{file}"
        limit = processes.read_text(path).strip() if "cpu" in self.folders else ""
        if not limit or limit.split()[0] == unlimited:
            yield
            return
        write_text(path, unlimited)
        try:
            yield
        finally:
            write_text(path, limit)

    def members(self) -> list[processes.Process]:
        """Every live process in any of them."""
        numbers: set[int] = set()
        for folder in dict.fromkeys(self.folders.values()):
            numbers.update(int(line) for line in processes.read_text(f"{folder}/cgroup.procs").split() if line != "0")
        found = (processes.look_up(number) for number in numbers)
        return [process for process in found if process is not None and process.alive]

    def kill(self) -> None:
        """Kill every member, frozen first where possible, so that none forks meanwhile."""
        if self.version == 2 and self._write("cgroup.kill", "1"):
            return
        self._freeze()
        try:
            for process in self.members():
                processes.send(process, signal.SIGKILL)
        finally:
            self._thaw()

    def _freeze(self) -> None:
        if self.version == 2:
            self._write("cgroup.freeze", "1")
            return
        if not self._write("freezer.state", "FROZEN"):
            return
        deadline = time.monotonic() + _FREEZE_LIMIT_S
        state = f"{self.folders['freezer']}/freezer.state"
        while processes.read_text(state).strip() != "FROZEN" and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)

    def _thaw(self) -> None:
        if self.version == 2:
            self._write("cgroup.freeze", "0")
        else:
            self._write("freezer.state", "THAWED")

    def _write(self, file: str, text: str) -> bool:
        """Write a control file; returns False if it is missing or refuses the text."""
        folder = self.folders.get("freezer")
        if folder is None:
            return False
        try:
            write_text(f"{folder}/{file}", text)
        except OSError:
            return False
        return True

    def killed_for_memory(self) -> bool:
        """Whether the system killed a member because the memory limit was reached."""
        folder = self.folders.get("memory")
        if folder is None:
            return False
        file = "memory.events" if self.version == 2 else "memory.oom_control"
        for line in processes.read_text(f"{folder}/{file}").splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return count.strip() != "0"
        return False

    def remove(self) -> bool:
        """Remove the empty folders; returns whether all are gone."""
        gone = True
        for folder in dict.fromkeys(self.folders.values()):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:
                gone = False
                continue
            # The parent folder is removed with its last kernel; this fails while it has others.
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(folder))
        return gone


def write_text(path: str, text: str) -> None:
    """Write a control file in one call; raises OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
