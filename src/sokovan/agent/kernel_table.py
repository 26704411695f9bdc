"""The state of an agent: its kernels, orphans, tombstones and images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from itertools import compress
from operator import is_, is_not
from typing import NamedTuple

from msgspec import Struct, field

from sokovan.agent.journal_records import JournalState, KernelKey, Tombstones
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.eviction import Checkpoint
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.agent_gateway import ImageReport
from sokovan.ports.agent_states import KernelReport

# Reported for an ended kernel whose exit code is unknown.
EXIT_UNKNOWN = 255


class Token(NamedTuple):
    """Identifies a request by its link and its number there."""

    link: int
    number: int


class KernelPhase(StrEnum):
    """The lifecycle of a kernel as seen by the agent."""

    REQUESTED = auto()  # in the journal; the runtime is starting it, or has not listed it yet
    RUNNING = auto()
    EXITED = auto()
    UNSTARTED = auto()  # in the journal, but the runtime never started it
    VANISHED = auto()  # was started, and the runtime no longer lists it: not a proof that it ended


LIVE = frozenset({KernelPhase.REQUESTED, KernelPhase.RUNNING, KernelPhase.UNSTARTED, KernelPhase.VANISHED})


class ManagedKernel(Struct, frozen=True):
    """One kernel that the agent manages.

    `stop_grace_s` is set once a stop was requested. An observation that began before tick
    `settled` may have missed the kernel; None while it is being started. `predates_boot`:
    the machine has rebooted since. `traces` identify its processes without its files;
    `ending`: the remains of a vanished kernel are being ended. `checkpoint` is the last one
    that it reported. `restored`: it ran before this process, which does not know whether
    it was asked to stop.
    """

    slots: ResourceSlot
    phase: KernelPhase
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exit_code: int | None = None
    reason: str = ""
    started: bool = False
    stop_grace_s: float | None = None
    settled: int | None = None
    predates_boot: bool = False
    waiting: tuple[Token, ...] = ()
    idle_s: int | None = None
    traces: str = ""
    ending: bool = False
    checkpoint: Checkpoint | None = None
    restored: bool = False

    @property
    def ended_by_itself(self) -> bool:
        """Whether it is certain that it ended before it was asked to stop."""
        return self.phase is KernelPhase.EXITED and self.stop_grace_s is None and not self.restored


@dataclass(frozen=True, slots=True)
class OrphanKernel:
    """A running kernel that no manager has requested from this agent."""

    since_ms: int
    stopped: bool = False


class KeepLimits(NamedTuple):
    """How many confirmed ends of kernels are kept at most, and for how long."""

    kernels_max: int
    seconds: int


class KernelTable(Struct, frozen=True):
    """The whole state of an agent. `tick` counts the events applied to it.

    `obstacle` is the reason why no kernel may start now, usually empty; `device_faults` are
    devices on which none may start, with the reason. Nothing is known of
    the machine before `observed`. Draining is not part of the state: a manager that drains
    an agent sends it no new kernels. `kept` are kernels whose end is confirmed, since
    when, as far as an observation has determined it; `keep` is None as long as managers forget them.
    """

    agent_id: AgentId
    capacity: ResourceSlot
    device_units: Mapping[str, int] = field(default_factory=dict)
    kernels_max: int | None = None
    boot: str = ""
    incarnation: int = 0
    tick: int = 0
    observed: bool = False
    obstacle: str = ""
    device_faults: Mapping[str, str] = field(default_factory=dict)
    kernels: Mapping[KernelKey, ManagedKernel] = field(default_factory=dict)
    orphans: Mapping[KernelKey, OrphanKernel] = field(default_factory=dict)
    tombstones: Tombstones = field(default_factory=Tombstones)
    kept: Mapping[KernelKey, int | None] = field(default_factory=dict)
    keep: KeepLimits | None = None
    images: Mapping[str, ImageReport] = field(default_factory=dict)
    image_waiting: Mapping[str, tuple[Token, ...]] = field(default_factory=dict)

    def __contains__(self, key: object) -> bool:
        return key in self.kernels or key in self.kept

    def live(self) -> Iterator[tuple[KernelKey, ManagedKernel]]:
        """The kernels that take resources: running, or possibly being started."""
        return ((key, kernel) for key, kernel in self.kernels.items() if kernel.phase in LIVE)


def restored(fresh: KernelTable, state: JournalState) -> KernelTable:
    """The state of an agent that has just started, from its journal.

    The incarnation is not restored: the process enrols again, and requests meant for
    an earlier incarnation are refused.
    """
    kernels = {
        key: ManagedKernel(
            slots=ResourceSlot(requested.slots),
            phase=KernelPhase.REQUESTED,
            devices=requested.devices,
            started=requested.started,
            settled=0,
            traces=requested.traces,
            restored=True,
            predates_boot=bool(requested.boot and fresh.boot and requested.boot != fresh.boot),
        )
        for key, requested in state.kernels.items()
    }
    return KernelTable(
        agent_id=fresh.agent_id,
        capacity=fresh.capacity,
        device_units=fresh.device_units,
        kernels_max=fresh.kernels_max,
        boot=fresh.boot,
        kernels=kernels,
        tombstones=state.tombstones,
    )


def reports(table: KernelTable) -> tuple[KernelReport, ...]:
    """Reports of every kernel for a heartbeat, orphans included."""
    own = [_report(key, kernel) for key, kernel in table.kernels.items()]
    orphans = [_orphan(key) for key in table.orphans]
    return tuple(sorted(own + orphans, key=lambda report: (report.kernel_id, report.attempt)))


def same_reports(before: KernelTable, after: KernelTable) -> bool:
    """Whether both tables report the same to managers; compares changed kernels only."""
    if before.orphans.keys() != after.orphans.keys():  # an adopted orphan is reported as before
        return reports(before) == reports(after)
    if before.kernels is after.kernels:
        return True
    old, new = before.kernels, after.kernels
    if len(new) > len(old):
        return False
    if len(new) == len(old) and all(map(is_, old, new)):  # the same keys in the same order: no look-ups
        changed: Iterator[KernelKey] = compress(new, map(is_not, new.values(), old.values()))
    elif not new.keys() <= old.keys() or not all(key in after for key in old.keys() - new.keys()):
        # An end that a manager has confirmed is no longer reported, which is no news to it.
        return False
    else:
        changed = (key for key, kernel in new.items() if kernel is not old[key])
    return all(_same_report(key, new[key], old[key]) for key in changed)


def _same_report(key: KernelKey, kernel: ManagedKernel, other: ManagedKernel) -> bool:
    if kernel.phase is other.phase and kernel.exit_code == other.exit_code and kernel.reason == other.reason:
        return True
    return _report(key, kernel) == _report(key, other)


def _orphan(key: KernelKey) -> KernelReport:
    return KernelReport(key.kernel_id, key.attempt, running=True)


def _report(key: KernelKey, kernel: ManagedKernel) -> KernelReport:
    over = kernel.phase is KernelPhase.EXITED
    exit_code = EXIT_UNKNOWN if over and kernel.exit_code is None else kernel.exit_code
    return KernelReport(
        key.kernel_id,
        key.attempt,
        # A kernel that has vanished may run: it ends with a proof only.
        running=kernel.phase in {KernelPhase.RUNNING, KernelPhase.VANISHED},
        exit_code=exit_code if over else None,
        reason=kernel.reason if over else "",
        idle_s=kernel.idle_s if kernel.phase is KernelPhase.RUNNING else None,
        checkpoint=kernel.checkpoint,
    )


def live_slots(table: KernelTable) -> list[ResourceSlot]:
    """The slots of each kernel that runs or is being started."""
    return [kernel.slots for kernel in table.kernels.values() if kernel.phase in LIVE]
