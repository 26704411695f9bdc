"""One pretended agent: it keeps the promises of a real one, and runs nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import NamedTuple

from sokovan.adapters.fake_agents.script import KernelScript
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import KernelId
from sokovan.domain.records import Device
from sokovan.ports.agent_gateway import AgentRefused, GoneProof
from sokovan.ports.agent_states import AgentState, KernelReport
from sokovan.ports.runtime import LogPart
from sokovan.wire.frames import CreateKernel

TERMINATED = 143
KILLED = 137


class FakePhase(StrEnum):
    """Where a pretended kernel is."""

    ASKED = auto()
    RUNNING = auto()
    EXITED = auto()


class Key(NamedTuple):
    """One attempt of one kernel."""

    kernel_id: KernelId
    attempt: int


@dataclass(slots=True)
class FakeKernel:
    """One kernel, as far as there is one; `over` is set when it has ended."""

    launch: CreateKernel
    conduct: KernelScript
    phase: FakePhase = FakePhase.ASKED
    exit_code: int | None = None
    stopped: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)


class FakeAgent:
    """What an agent holds; every method is one step, and none waits."""

    def __init__(self, info: AgentInfo, devices: tuple[Device, ...]) -> None:
        self.info, self.devices = info, devices
        self.incarnation = 0
        self.sequence = 0
        self.kernels: dict[Key, FakeKernel] = {}
        self._tombstones: dict[Key, int | None] = {}
        self._latest: dict[KernelId, int] = {}
        self._used: Counter[str] = Counter()
        self._units = {device.device_id: device.units for device in devices}
        self._taken: Counter[str] = Counter()

    def create(self, incarnation: int, launch: CreateKernel, conduct: KernelScript) -> bool:
        """Take a kernel; whether it is new. Raises AgentRefused."""
        self.require(incarnation)
        key = Key(KernelId(launch.kernel_id), launch.attempt)
        held = self.kernels.get(key)
        if key in self._tombstones:
            raise self._refusal("tombstone", f"{_words(key)} is over and will not be created again")
        if held is not None and held.stopped:
            raise self._refusal("stopping", f"{_words(key)} is being stopped")
        if held is not None:
            return False
        self._require_room(key, launch)
        self.kernels[key] = FakeKernel(launch, conduct)
        self._latest[key.kernel_id] = key.attempt
        self._used.update(launch.slots)
        self._taken.update(_devices(launch))
        return True

    def start(self, key: Key) -> bool:
        """A kernel that was asked for runs now; whether it does."""
        kernel = self.kernels.get(key)
        if kernel is None or kernel.phase is not FakePhase.ASKED:
            return False
        kernel.phase = FakePhase.RUNNING
        return True

    def end(self, key: Key, exit_code: int) -> bool:
        """A kernel is over; whether it was not before."""
        kernel = self.kernels.get(key)
        if kernel is None or kernel.phase is FakePhase.EXITED:
            return False
        kernel.phase, kernel.exit_code = FakePhase.EXITED, exit_code
        self._used.subtract(kernel.launch.slots)
        self._taken.subtract(_devices(kernel.launch))
        kernel.over.set()
        return True

    def stop(self, incarnation: int, key: Key) -> GoneProof:
        """Whether a kernel is gone; one that is not is to end. Raises AgentRefused."""
        self.require(incarnation)
        kernel = self.kernels.get(key)
        if kernel is not None and kernel.phase is not FakePhase.EXITED:
            kernel.stopped = True
            return GoneProof(gone=False, detail={"phase": kernel.phase})
        if key not in self._tombstones:
            self._tombstones[key] = kernel.exit_code if kernel is not None else None
            self._latest[key.kernel_id] = max(key.attempt, self._latest.get(key.kernel_id, 0))
        return GoneProof(gone=True, exit_code=self._tombstones[key])

    def forget(self, incarnation: int, key: Key) -> bool:
        """Drop what is kept of an ended kernel; whether there was. Raises AgentRefused."""
        self.require(incarnation)
        kernel = self.kernels.get(key)
        if kernel is None:
            return False
        if kernel.phase is not FakePhase.EXITED:
            raise self._refusal("not-over", f"{_words(key)} is not over: {kernel.phase}")
        self._tombstones.setdefault(key, kernel.exit_code)
        del self.kernels[key]
        return True

    def log(self, key: Key, text: bytes, *, offset: int, limit: int) -> LogPart:
        """A part of `text`, which is all that the kernel says. Raises AgentRefused."""
        kernel = self.kernels.get(key)
        if kernel is None:
            raise self._refusal("runtime-failure", f"{_words(key)} is not here")
        said = b"" if kernel.phase is FakePhase.ASKED else text
        piece = said[max(0, offset) :][: max(0, limit)]
        at_end = max(0, offset) + len(piece) >= len(said)
        return LogPart(offset, piece, end=kernel.phase is FakePhase.EXITED and at_end)

    def state(self) -> AgentState:
        """Everything that the agent holds, as the next heartbeat says it."""
        self.sequence += 1
        reports = (
            KernelReport(key.kernel_id, key.attempt, kernel.phase is FakePhase.RUNNING, kernel.exit_code)
            for key, kernel in self.kernels.items()
        )
        return AgentState(self.info.agent_id, self.incarnation, self.sequence, tuple(reports))

    def require(self, incarnation: int) -> None:
        """Raise AgentRefused for what is meant for another incarnation."""
        if incarnation != self.incarnation:
            raise self._refusal("other-incarnation", f"meant for incarnation {incarnation}, this is {self.incarnation}")

    def _require_room(self, key: Key, launch: CreateKernel) -> None:
        latest = self._latest.get(key.kernel_id, 0)
        if latest > key.attempt:
            raise self._refusal("outdated-attempt", f"{_words(key)} comes after attempt {latest}")
        before = self.kernels.get(Key(key.kernel_id, latest))
        if before is not None and before.phase is not FakePhase.EXITED:
            raise self._refusal("attempt-live", f"attempt {latest} of kernel {key.kernel_id} is not over")
        for slot, amount in launch.slots.items():
            if self._used[slot] + amount > self.info.available_slots[slot]:
                raise self._refusal("no-room", f"not enough {slot}: {amount} asked for, {self._used[slot]} in use")
        asked = Counter(_devices(launch))
        for device, times in asked.items():
            if self._taken[device] + times > self._units.get(device, 0):
                raise self._refusal("no-room", f"device {device} is in use or not here")

    def _refusal(self, reason: str, problem: str) -> AgentRefused:
        return AgentRefused(agent_id=self.info.agent_id, problem=f"{problem} [{reason}]", reason=reason)


def _devices(launch: CreateKernel) -> list[str]:
    return [device for ids in launch.devices.values() for device in ids]


def _words(key: Key) -> str:
    return f"kernel {key.kernel_id} (attempt {key.attempt})"
