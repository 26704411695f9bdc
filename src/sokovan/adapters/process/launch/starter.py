"""Starting a kernel: its folder, its limits, its shim; once, or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from typing import Any

from sokovan.adapters.process.fork_server import NURSERY
from sokovan.adapters.process.images import ProcessImages
from sokovan.adapters.process.isolation.confinement import Confinement
from sokovan.adapters.process.isolation.kernel_limits import KernelLimits, set_limits
from sokovan.adapters.process.launch.environment import RUNTIME, marks_of
from sokovan.adapters.process.launch.launch_plan import check_launch, plan_of
from sokovan.adapters.process.layout import (
    LAUNCH,
    PRIVATE,
    TEMPORARY,
    WORK,
    KernelLayout,
    folder_name,
    open_lock,
    opened,
)
from sokovan.adapters.process.orphan_processes import OrphanProcesses
from sokovan.adapters.process.shim.control_groups import ControlGroups
from sokovan.adapters.process.shim.main import STATE
from sokovan.adapters.process.shim.state_files import read_record, write_record
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.frames import CreateKernel

_ATTEMPTS = 5


class KernelTombstoned(RuntimeFailure):
    """A kernel that ran here and was forgotten is asked for again."""

    code = "kernel-forgotten"
    hint = "a kernel runs once per attempt; start it as a new attempt"


@dataclass(frozen=True, slots=True)
class Starter:
    """Puts the parts together for one kernel at a time; blocking, for a thread."""

    places: KernelLayout
    images: ProcessImages
    confinement: Confinement

    def start(self, launch: CreateKernel) -> None:
        """Start a kernel unless it was started already; raises RuntimeFailure."""
        check_launch(launch)
        name = folder_name(KernelId(launch.kernel_id), launch.attempt)
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

    def _locked_folder(self, launch: CreateKernel, name: str) -> int:
        """The lock of the kernel's folder, made if it is missing."""
        for _ in range(_ATTEMPTS):
            if self.places.is_forgotten(name):
                raise KernelTombstoned(
                    f"kernel {launch.kernel_id}, attempt {launch.attempt}, was here and is forgotten"
                )
            try:
                return open_lock(self.places.kernels / name, wait=True)
            except FileNotFoundError:
                lock = self._made_folder(launch, name)
            if lock is not None:
                return lock
        raise RuntimeFailure(f"the folder of kernel {launch.kernel_id} comes and goes")

    def _made_folder(self, launch: CreateKernel, name: str) -> int | None:
        """Appears whole and locked, so that nobody takes it for one that was given up."""
        fresh = self.places.fresh(name)
        fresh.mkdir(mode=PRIVATE)
        try:
            lock = open_lock(fresh, wait=True)
        except FileNotFoundError:  # somebody's clock runs ahead, and it was taken for a leftover
            return None
        try:
            for below in (WORK, TEMPORARY):
                (fresh / below).mkdir(mode=PRIVATE)
            with opened(fresh) as folder:
                write_record(folder, LAUNCH, self._kept(launch, KernelLimits()))
            fresh.rename(self.places.kernels / name)
        except OSError as error:
            os.close(lock)
            shutil.rmtree(fresh, ignore_errors=True)
            if isinstance(error, FileExistsError) or (self.places.kernels / name).exists():
                return None
            raise
        return lock

    def _kept(self, launch: CreateKernel, limits: KernelLimits) -> dict[str, Any]:
        """What is needed to find the kernel again; its variables are not, and may be secret."""
        return {
            "kernel_id": launch.kernel_id,
            "attempt": launch.attempt,
            "session_id": launch.session_id,
            "image": launch.image,
            "confinement": self.confinement.in_words(),
            "groups": {"version": limits.version, "folders": limits.folders},
        }

    def _start_locked(self, launch: CreateKernel, name: str, lock: int) -> None:
        marks = marks_of(KernelId(launch.kernel_id), launch.attempt, root=self.places.root)
        limits = KernelLimits()
        try:
            place = self.places.kernels / name
            plan = plan_of(launch, place, sandbox=self.confinement.sandbox, images=self.images, marks=marks)
            plan["lock"] = lock
            limits = set_limits(launch, self.confinement.hierarchies, name=f"{marks[RUNTIME]}-{name}")
            plan["groups"] = {"version": limits.version, "folders": limits.folders}
            plan["rlimits"] = limits.rlimits
            with opened(self.places.kernels / name) as folder:
                write_record(folder, LAUNCH, self._kept(launch, limits))
            NURSERY.run_shim(plan, lock)
        except BaseException:
            # Nothing may run after a refusal, and the next attempt finds a clean place.
            groups = ControlGroups(limits.version, limits.folders)
            OrphanProcesses(marks, groups=groups, state=self._written(name)).end()
            groups.remove()
            self.places.discard(name)
            raise

    def _written(self, name: str) -> dict[str, Any]:
        """What a shim has written of itself before the start was given up."""
        with contextlib.suppress(OSError), opened(self.places.kernels / name) as folder:
            return dict(read_record(folder, STATE) or {})
        return {}
