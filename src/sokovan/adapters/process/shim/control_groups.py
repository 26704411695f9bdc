"""Control groups of one kernel: joined, emptied, asked why, and removed."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from sokovan.adapters.process.shim import processes

_FREEZE_LIMIT_S = 0.2
_PAUSE_S = 0.002


class ControlGroups:
    """The folders in which the kernel's processes are counted, by what each controls.

    In version 2 one folder stands for everything; in version 1 each controller has its own.
    """

    def __init__(self, version: int, folders: dict[str, str]) -> None:
        self.version = version
        self.folders = folders

    def join(self) -> None:
        """Put the calling process into all of them; raises OSError."""
        for folder in dict.fromkeys(self.folders.values()):
            write_text(f"{folder}/cgroup.procs", "0")

    def members(self) -> list[processes.Process]:
        """Every process alive in any of them."""
        numbers: set[int] = set()
        for folder in dict.fromkeys(self.folders.values()):
            numbers.update(int(line) for line in processes.read_text(f"{folder}/cgroup.procs").split() if line != "0")
        found = (processes.look_up(number) for number in numbers)
        return [process for process in found if process is not None and process.alive]

    def kill(self) -> None:
        """Kill every member, frozen first where that is possible, so that none forks away."""
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
        """Whether the control file is there and took the text."""
        folder = self.folders.get("freezer")
        if folder is None:
            return False
        try:
            write_text(f"{folder}/{file}", text)
        except OSError:
            return False
        return True

    def killed_for_memory(self) -> bool:
        """Whether the kernel of the system killed a member because memory was full."""
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
        """Remove the folders, which must have no members; whether all are gone."""
        gone = True
        for folder in dict.fromkeys(self.folders.values()):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:
                gone = False
                continue
            # The folder above goes with its last kernel; while it has others this fails, as it should.
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(folder))
        return gone


def write_text(path: str, text: str) -> None:
    """Write a control file in one piece; raises OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
