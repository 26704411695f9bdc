"""Session specs for tests, and a scheduling core without a thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.session import KernelSpec, SessionSpec
from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SystemSnapshot

ONE_CPU: Mapping[str, int] = {"cpu": 1000, "mem": 1 << 30}


async def decide_at_once(snapshot: SystemSnapshot, profile: SchedulingProfile) -> SchedulingPlan:
    """Run the scheduling core in the event loop."""
    return schedule(snapshot, profile)


def work_spec(
    id_: str, *, kernels: int = 1, slots: Mapping[str, int] = ONE_CPU, image: str = "python", **options: Any
) -> SessionSpec:
    """A session of equal kernels `id_.0`, `id_.1`, ...; options are SessionSpec's."""
    requested = ResourceSlot(slots)
    specs = tuple(
        KernelSpec(KernelId(f"{id_}.{index}"), requested, image=image, command=("work",)) for index in range(kernels)
    )
    return SessionSpec(SessionId(id_), specs, **options)
