"""Starts a kernel: folder, limits and shim; once, or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from typing import Any

from sokovan.adapters.process.fork_server import FORK_SERVER
from sokovan.adapters.process.images import ProcessImages
from sokovan.adapters.process.isolation.confinement import Confinement
from sokovan.adapters.process.isolation.kernel_limits import set_limits
from sokovan.adapters.process.launch.environment import RUNTIME, marks_of
from sokovan.adapters.process.launch.launch_plan import check_launch, plan_of, record_of
from sokovan.adapters.process.launch.output_folders import OutputFolders
from sokovan.adapters.process.layout import (
    LAUNCH,
    PRIVATE,
    WORK,
    KernelLayout,
    folder_name,
    open_lock,
    opened,
)
from sokovan.adapters.process.orphan_processes import OrphanProcesses, traces_of
from sokovan.adapters.process.shim.control_groups import ControlGroups
from sokovan.adapters.process.shim.main import STATE
from sokovan.adapters.process.shim.state_files import read_record, write_record
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelRemains, RuntimeFailure
from sokovan.wire.frames import CreateKernel

_ATTEMPTS = 5


class KernelTombstoned(RuntimeFailure):
    """A request to start a kernel that was forgotten here."""

    code = "kernel-forgotten"
    hint = "a kernel runs once per attempt; start it as a new attempt"


@dataclass(frozen=True, slots=True)
class Starter:
    """Starts one kernel at a time; blocking."""

    layout: KernelLayout
    images: ProcessImages
    confinement: Confinement

    def start(self, launch: CreateKernel) -> str:
        """Start a kernel unless it was started already, and return its traces.

        Raises RuntimeFailure, or KernelRemains if something of a failed start still runs.
        """
        check_launch(launch)
        name = folder_name(KernelId(launch.kernel_id), launch.attempt)
        try:
            lock, is_new = self._locked_folder(launch, name)
            try:
                with opened(self.layout.kernels / name) as folder:
                    state = read_record(folder, STATE)
                    if state is not None:
                        return traces_of(read_record(folder, LAUNCH) or {}, state)
                    if not is_new:  # of a start that was abandoned
                        write_record(folder, LAUNCH, self._record(launch, name))
                return self._start_locked(launch, name, lock)
            finally:
                os.close(lock)
        except OSError as error:
            raise RuntimeFailure(f"kernel {launch.kernel_id} cannot be started: {error}") from error

    def _locked_folder(self, launch: CreateKernel, name: str) -> tuple[int, bool]:
        """The lock of the kernel's folder, which is created if missing, and whether it was."""
        for _ in range(_ATTEMPTS):
            if self.layout.is_forgotten(name):
                raise KernelTombstoned(
                    f"attempt {launch.attempt} of kernel {launch.kernel_id} ran here and was forgotten"
                )
            try:
                return open_lock(self.layout.kernels / name, wait=True), False
            except FileNotFoundError:
                lock = self._created_folder(launch, name)
            if lock is not None:
                return lock, True
        raise RuntimeFailure(f"the folder of kernel {launch.kernel_id} is repeatedly created and removed")

    def _created_folder(self, launch: CreateKernel, name: str) -> int | None:
        """Create the folder completely and locked, so that it never looks abandoned."""
        record = self._record(launch, name)
        fresh = self.layout.fresh(name)
        fresh.mkdir(mode=PRIVATE)
        try:
            lock = open_lock(fresh, wait=True)
        except FileNotFoundError:  # removed as a leftover by a process whose clock is ahead
            return None
        try:
            (fresh / WORK).mkdir(mode=PRIVATE)
            with opened(fresh) as folder:
                write_record(folder, LAUNCH, record)
            fresh.rename(self.layout.kernels / name)
        except OSError as error:
            os.close(lock)
            shutil.rmtree(fresh, ignore_errors=True)
            if isinstance(error, FileExistsError) or (self.layout.kernels / name).exists():
                return None
            raise
        return lock

    def _record(self, launch: CreateKernel, name: str) -> dict[str, Any]:
        groups = self._groups(launch, name)
        known = {"version": groups.version, "folders": groups.folders}
        return record_of(launch, self.layout.kernels / name, confinement=self.confinement.in_words(), groups=known)

    def _groups(self, launch: CreateKernel, name: str) -> ControlGroups:
        """The control groups of a kernel, which may not exist."""
        hierarchies = self.confinement.hierarchies
        marks = marks_of(KernelId(launch.kernel_id), launch.attempt, root=self.layout.root)
        return ControlGroups(hierarchies.version, hierarchies.folders(f"{marks[RUNTIME]}-{name}"))

    def _start_locked(self, launch: CreateKernel, name: str, lock: int) -> str:
        with contextlib.ExitStack() as closing:
            return self._start_closing(launch, name, lock, closing)

    def _start_closing(self, launch: CreateKernel, name: str, lock: int, closing: contextlib.ExitStack) -> str:
        marks = marks_of(KernelId(launch.kernel_id), launch.attempt, root=self.layout.root)
        groups = self._groups(launch, name)
        try:
            place = self.layout.kernels / name
            OutputFolders(self.layout).prepare(launch, name)
            account = self.confinement.account_of(launch, closing)
            plan = plan_of(
                launch,
                place,
                sandbox=self.confinement.sandbox,
                images=self.images,
                marks=marks,
                account=account,
            )
            plan["lock"] = lock
            limits = set_limits(
                launch,
                self.confinement.hierarchies,
                name=f"{marks[RUNTIME]}-{name}",
                account=None if account is None else account.number,
            )
            plan["groups"] = {"version": limits.version, "folders": limits.folders}
            plan["rlimits"] = limits.rlimits
            return traces_of(plan, FORK_SERVER.run_shim(plan, lock))
        except BaseException as problem:
            # Nothing may run after a refusal, and the next attempt starts clean.
            left = OrphanProcesses(marks, groups=groups, state=self._shim_record(name)).end()
            if left:  # its folder is kept: observations list the kernel until it has ended
                cause = problem.message if isinstance(problem, RuntimeFailure) else str(problem)
                raise KernelRemains(f"{cause}; pid {left[0].pid} of the start does not die") from problem
            groups.remove()
            self.layout.discard(name)
            raise

    def _shim_record(self, name: str) -> dict[str, Any]:
        """The shim's record from before the start was abandoned."""
        with contextlib.suppress(OSError), opened(self.layout.kernels / name) as folder:
            return dict(read_record(folder, STATE) or {})
        return {}
