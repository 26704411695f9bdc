"""Starting a kernel: its folder, its limits, its shim; once, or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

import sokovan
from sokovan.adapters.process.confinement import Confinement
from sokovan.adapters.process.images import Images
from sokovan.adapters.process.leftovers import Remains
from sokovan.adapters.process.limits import Limits, set_limits
from sokovan.adapters.process.places import (
    LAUNCH,
    PRIVATE,
    TEMPORARY,
    UNFINISHED,
    WORK,
    Places,
    folder_name,
    open_lock,
    opened,
)
from sokovan.adapters.process.shim.control_groups import ControlGroups
from sokovan.adapters.process.shim.main import STATE
from sokovan.adapters.process.shim.records import read_record, write_record
from sokovan.adapters.process.surroundings import RUNTIME, check_command, environment_of, marks_of
from sokovan.adapters.process.work_files import check_mounts, link_mounts, parts_below, write_files
from sokovan.domain.errors import quoted
from sokovan.domain.ids import is_name
from sokovan.ports.runtime import Launch, RuntimeFailure

START_LIMIT_S = 60.0
_BOOT = "import sys; sys.path.append(sys.argv[1]); from sokovan.adapters.process.shim.main import main; main()"
_IMPORT_ROOT = str(Path(sokovan.__file__).parent.parent)
_ATTEMPTS = 5
_numbers = count(1)


class KernelForgotten(RuntimeFailure):
    """A kernel that ran here and was forgotten is asked for again."""

    code = "kernel-forgotten"
    hint = "a kernel runs once per attempt; start it as a new attempt"


@dataclass(frozen=True, slots=True)
class Starter:
    """Puts the parts together for one kernel at a time; blocking, for a thread."""

    places: Places
    images: Images
    confinement: Confinement

    def start(self, launch: Launch) -> None:
        """Start a kernel unless it was started already; raises RuntimeFailure."""
        _check(launch)
        name = folder_name(launch.kernel_id, launch.attempt)
        try:
            lock = self._locked_folder(launch, name)
            try:
                with opened(self.places.kernels / name) as folder:
                    if read_record(folder, STATE) is not None:
                        return
                self._start_locked(launch, name, lock)
            finally:
                os.close(lock)
        except OSError as error:
            raise RuntimeFailure(f"kernel {launch.kernel_id} cannot be started: {error}") from error

    def _locked_folder(self, launch: Launch, name: str) -> int:
        """The lock of the kernel's folder, made if it is missing."""
        for _ in range(_ATTEMPTS):
            if self.places.is_forgotten(name):
                raise KernelForgotten(f"kernel {launch.kernel_id}, attempt {launch.attempt}, was here and is forgotten")
            try:
                return open_lock(self.places.kernels / name, wait=True)
            except FileNotFoundError:
                lock = self._made_folder(launch, name)
            if lock is not None:
                return lock
        raise RuntimeFailure(f"the folder of kernel {launch.kernel_id} comes and goes")

    def _made_folder(self, launch: Launch, name: str) -> int | None:
        """Appears whole and locked, so that nobody takes it for one that was given up."""
        fresh = self.places.kernels / f"{UNFINISHED}{name}-{os.getpid()}-{next(_numbers)}"
        fresh.mkdir(mode=PRIVATE)
        lock = open_lock(fresh, wait=True)
        try:
            for below in (WORK, TEMPORARY):
                (fresh / below).mkdir(mode=PRIVATE)
            with opened(fresh) as folder:
                write_record(folder, LAUNCH, self._kept(launch, Limits()))
            fresh.rename(self.places.kernels / name)
        except OSError as error:
            os.close(lock)
            shutil.rmtree(fresh, ignore_errors=True)
            if isinstance(error, FileExistsError) or (self.places.kernels / name).exists():
                return None
            raise
        return lock

    def _kept(self, launch: Launch, limits: Limits) -> dict[str, Any]:
        """What is needed to find the kernel again; its variables are not, and may be secret."""
        return {
            "kernel_id": launch.kernel_id,
            "attempt": launch.attempt,
            "session_id": launch.session_id,
            "image": launch.image,
            "confinement": self.confinement.in_words(),
            "groups": {"version": limits.version, "folders": limits.folders},
        }

    def _start_locked(self, launch: Launch, name: str, lock: int) -> None:
        marks = marks_of(launch.kernel_id, launch.attempt, root=self.places.root)
        limits = Limits()
        try:
            plan = self._plan(launch, name, lock)
            limits = set_limits(launch, self.confinement.hierarchies, name=f"{marks[RUNTIME]}-{name}")
            plan["groups"] = {"version": limits.version, "folders": limits.folders}
            plan["rlimits"] = limits.rlimits
            with opened(self.places.kernels / name) as folder:
                write_record(folder, LAUNCH, self._kept(launch, limits))
            _run_shim(plan, lock)
        except BaseException:
            # Nothing may run after a refusal, and the next attempt finds a clean place.
            groups = ControlGroups(limits.version, limits.folders)
            Remains(marks, groups=groups, state={}).end()
            groups.remove()
            self.places.discard(name)
            raise

    def _plan(self, launch: Launch, name: str, lock: int) -> dict[str, Any]:
        place = self.places.kernels / name
        work = Path(os.path.realpath(place)) / WORK
        sandbox = self.confinement.sandbox
        marks = marks_of(launch.kernel_id, launch.attempt, root=self.places.root)
        environment = environment_of(
            launch,
            home=str(work),
            temporary="/tmp" if sandbox.program else str(work.parent / TEMPORARY),  # noqa: S108  # private to the sandbox
            programs=self.images.programs(launch.image),
            marks=marks,
        )
        folder = _folder_of(launch, work)
        write_files(work, launch.files)
        if not sandbox.program:
            link_mounts(work, launch.mounts)
        _check_program(launch, environment, folder)
        shown = [image for image in [self.images.folder(launch.image)] if image is not None]
        options = sandbox.options(launch, work=work, folder=folder, shown=shown) if sandbox.program else []
        wrapped = {"program": sandbox.program, "options": options, "environment": {"PATH": os.defpath, **marks}}
        return {
            "place": str(place),
            "lock": lock,
            "arguments": list(launch.command),
            "environment": environment,
            "folder": folder,
            "sandbox": wrapped if sandbox.program else None,
            "log_bytes_max": launch.log_bytes_max,
        }


def _check(launch: Launch) -> None:
    for name in (launch.kernel_id, launch.session_id):
        if not is_name(name):
            raise RuntimeFailure(f"{quoted(name)} is not the id of a kernel or session")
    if launch.attempt < 0:
        raise RuntimeFailure(f"attempt {launch.attempt} of kernel {launch.kernel_id} is negative")
    check_command(launch.command)
    check_mounts(launch.mounts)


def _folder_of(launch: Launch, work: Path) -> str:
    """Where the kernel starts: its work folder, one below it, or an absolute one."""
    if not launch.workdir:
        return str(work)
    if PurePosixPath(launch.workdir).is_absolute():
        return launch.workdir
    folder = work.joinpath(*parts_below(launch.workdir, what="working folder"))
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _check_program(launch: Launch, environment: dict[str, str], folder: str) -> None:
    """Say at once that a program is missing; what a mount may bring is seen when it runs."""
    program = launch.command[0]
    if launch.mounts or ("/" in program and not program.startswith("/")):
        return
    if shutil.which(program, path=environment["PATH"]) is None:
        raise RuntimeFailure(
            f"{program!r} is not a program on this machine, seen from {folder}",
            hint="check the command and PATH of the session, or choose an image that has the program",
        )


def _run_shim(plan: dict[str, Any], lock: int) -> None:
    """Start a shim and wait until its kernel runs; raises RuntimeFailure."""
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT, _IMPORT_ROOT]
    with subprocess.Popen(  # noqa: S603  # our own interpreter and a constant
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={},
        pass_fds=(lock,),
        start_new_session=True,
    ) as process:
        try:
            told, trouble = process.communicate(json.dumps(plan).encode(), timeout=START_LIMIT_S)
        except BaseException:
            # The first process is ours until it is waited for, so its group can be nobody else's.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    answer = json.loads(told or b"{}")
    if "done" not in answer:
        detail = answer.get("error") or trouble.decode(errors="replace").strip()[-2000:] or "its shim ended"
        raise RuntimeFailure(f"the kernel could not be started: {detail}")
