"""What an agent holds: its kernels, its promises, and what stands in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import NamedTuple

from sokovan.agent.journal_records import KernelKey, Memory, Tombstones
from sokovan.domain.ids import AgentId
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.ports.agent_gateway import ImageReport
from sokovan.ports.agent_states import KernelReport

# Reported for a kernel that has ended in a way that nobody saw.
EXIT_UNKNOWN = 255


class Token(NamedTuple):
    """Whom to answer: a request on one link."""

    link: int
    number: int


class KernelPhase(StrEnum):
    """Where a kernel is, as far as the agent knows."""

    ASKED = auto()  # in the journal; the runtime is at it, or has not shown it yet
    RUNNING = auto()
    EXITED = auto()
    UNSTARTED = auto()  # in the journal, but the runtime never had it
    VANISHED = auto()  # was started, and the runtime lists it no more: proves nothing


LIVE = frozenset({KernelPhase.ASKED, KernelPhase.RUNNING, KernelPhase.UNSTARTED, KernelPhase.VANISHED})


@dataclass(frozen=True, slots=True)
class ManagedKernel:
    """One kernel that the agent answers for.

    `stop_grace_s` is set once it shall end. An observation that began before tick
    `settled` may have missed it; None while it is being started. `outlasted`: the
    machine was started anew since.
    """

    slots: ResourceSlot
    phase: KernelPhase
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exit_code: int | None = None
    reason: str = ""
    started: bool = False
    stop_grace_s: float | None = None
    settled: int | None = None
    outlasted: bool = False
    waiting: tuple[Token, ...] = ()


@dataclass(frozen=True, slots=True)
class OrphanKernel:
    """A kernel that runs here and that nobody has asked this agent for."""

    since_ms: int
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class KernelTable:
    """The whole state of an agent. `tick` counts what has happened to it.

    `obstacle` says why nothing new may start, in words, and is empty as a rule. Nothing
    is known of the machine before `seen`. Whether a manager drains the agent is not here:
    it then asks for nothing new, and whatever it asks for, it wants.
    """

    agent_id: AgentId
    capacity: ResourceSlot
    device_units: Mapping[str, int] = field(default_factory=dict)
    kernels_max: int | None = None
    boot: str = ""
    incarnation: int = 0
    tick: int = 0
    seen: bool = False
    obstacle: str = ""
    kernels: Mapping[KernelKey, ManagedKernel] = field(default_factory=dict)
    strangers: Mapping[KernelKey, OrphanKernel] = field(default_factory=dict)
    tombstones: Tombstones = field(default_factory=Tombstones)
    images: Mapping[str, ImageReport] = field(default_factory=dict)
    image_waiting: Mapping[str, tuple[Token, ...]] = field(default_factory=dict)

    def live(self) -> Iterator[tuple[KernelKey, ManagedKernel]]:
        """The kernels that take room: what runs, and what is or may be started."""
        return ((key, held) for key, held in self.kernels.items() if held.phase in LIVE)


def restored(fresh: KernelTable, memory: Memory) -> KernelTable:
    """The state of an agent that has just started, with what its journal says.

    Its incarnation is not taken up: this process enrols anew, and what was meant for
    an earlier one is refused.
    """
    kernels = {
        key: ManagedKernel(
            slots=ResourceSlot(asked.slots),
            phase=KernelPhase.ASKED,
            devices=asked.devices,
            started=asked.started,
            settled=0,
            outlasted=bool(asked.boot and fresh.boot and asked.boot != fresh.boot),
        )
        for key, asked in memory.kernels.items()
    }
    return KernelTable(
        agent_id=fresh.agent_id,
        capacity=fresh.capacity,
        device_units=fresh.device_units,
        kernels_max=fresh.kernels_max,
        boot=fresh.boot,
        kernels=kernels,
        tombstones=memory.tombstones,
    )


def reports(holdings: KernelTable) -> tuple[KernelReport, ...]:
    """Every kernel of the agent, for a heartbeat; strangers too."""
    own = [_report(key, held) for key, held in holdings.kernels.items()]
    strange = [_strange(key) for key in holdings.strangers]
    return tuple(sorted(own + strange, key=lambda report: (report.kernel_id, report.attempt)))


def same_reports(before: KernelTable, after: KernelTable) -> bool:
    """Whether `reports` of both would be equal; only what was touched is looked at.

    An agent keeps what has ended until it is told to forget it, so most of its kernels
    are the same as before.
    """
    if before.kernels is after.kernels and before.strangers is after.strangers:
        return True
    touched = {key for key, held in after.kernels.items() if before.kernels.get(key) is not held}
    touched |= before.kernels.keys() - after.kernels.keys()
    touched |= before.strangers.keys() ^ after.strangers.keys()
    return all(_reports_of(before, key) == _reports_of(after, key) for key in touched)


def _reports_of(holdings: KernelTable, key: KernelKey) -> list[KernelReport]:
    held = holdings.kernels.get(key)
    own = [] if held is None else [_report(key, held)]
    return [*own, _strange(key)] if key in holdings.strangers else own


def _strange(key: KernelKey) -> KernelReport:
    return KernelReport(key.kernel_id, key.attempt, running=True)


def _report(key: KernelKey, held: ManagedKernel) -> KernelReport:
    over = held.phase in {KernelPhase.EXITED, KernelPhase.VANISHED}
    exit_code = EXIT_UNKNOWN if over and held.exit_code is None else held.exit_code
    return KernelReport(
        key.kernel_id,
        key.attempt,
        running=held.phase is KernelPhase.RUNNING,
        exit_code=exit_code if over else None,
        reason=held.reason if over else "",
    )


def used_slots(holdings: KernelTable) -> ResourceSlot:
    """What the kernels take that run or are being started."""
    used = NO_SLOTS
    for _, held in holdings.live():
        used += held.slots
    return used
