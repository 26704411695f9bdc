"""What an agent must still know after it was killed, line by line.

The journal is the sum of its records; `recalled` adds one. Nothing here touches a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from sokovan.domain.ids import KernelId


class KernelKey(NamedTuple):
    """One attempt of one kernel: what requests are keyed by."""

    kernel_id: KernelId
    attempt: int

    def __str__(self) -> str:
        return f"kernel {self.kernel_id} (attempt {self.attempt})"


class IncarnationTaken(Struct, frozen=True, tag="incarnation"):
    """A manager has welcomed the agent as this incarnation."""

    incarnation: int


class KernelAsked(Struct, frozen=True, tag="asked"):
    """A kernel is going to be started; written before that is tried.

    `boot` names the time between two starts of the machine, if that is known.
    """

    key: KernelKey
    slots: dict[str, int]
    devices: dict[str, tuple[str, ...]] = {}
    boot: str = ""


class KernelStarted(Struct, frozen=True, tag="started"):
    """A kernel was started for certain."""

    key: KernelKey


class KernelWithdrawn(Struct, frozen=True, tag="withdrawn"):
    """A kernel could not be started, and nothing of it runs; it may be tried again."""

    key: KernelKey


class KernelEntombed(Struct, frozen=True, tag="tombstone"):
    """Nothing of this attempt runs, and it will never be created again."""

    key: KernelKey
    incarnation: int
    exit_code: int | None = None


class KernelForgotten(Struct, frozen=True, tag="forgotten"):
    """Nobody needs what is kept of an ended kernel."""

    key: KernelKey


JournalRecord: TypeAlias = (
    IncarnationTaken | KernelAsked | KernelStarted | KernelWithdrawn | KernelEntombed | KernelForgotten
)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A promise that an attempt is over; `incarnation` is the one that gave it."""

    incarnation: int
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class AskedFor:
    """A kernel of the journal; `started` once that is certain."""

    slots: Mapping[str, int]
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    boot: str = ""
    started: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """What the journal says in sum."""

    incarnation: int = 0
    kernels: Mapping[KernelKey, AskedFor] = field(default_factory=dict)
    tombstones: Mapping[KernelKey, Tombstone] = field(default_factory=dict)


def recalled(memory: Memory, records: Iterable[JournalRecord]) -> Memory:
    """The memory after these records."""
    incarnation, kernels, tombstones = memory.incarnation, dict(memory.kernels), dict(memory.tombstones)
    for record in records:
        match record:
            case IncarnationTaken():
                incarnation = record.incarnation
                tombstones = standing(tombstones, incarnation=incarnation, held=kernels)
            case KernelAsked():
                kernels[record.key] = AskedFor(record.slots, record.devices, record.boot)
            case KernelStarted() if record.key in kernels:
                kernels[record.key] = replace(kernels[record.key], started=True)
            case KernelWithdrawn() | KernelForgotten():
                kernels.pop(record.key, None)
            case KernelEntombed():
                tombstones[record.key] = Tombstone(record.incarnation, record.exit_code)
    return Memory(incarnation, kernels, tombstones)


def standing(
    tombstones: Mapping[KernelKey, Tombstone], *, incarnation: int, held: Mapping[KernelKey, object]
) -> dict[KernelKey, Tombstone]:
    """The tombstones that a new incarnation still needs.

    A request names the incarnation it is meant for, so that those of an earlier one are
    refused without any tombstone. The last but one is kept for good measure, and so is
    whatever belongs to a kernel that is still listed.
    """
    return {
        key: tombstone
        for key, tombstone in tombstones.items()
        if tombstone.incarnation >= incarnation - 1 or key in held
    }


def summary(memory: Memory) -> tuple[JournalRecord, ...]:
    """The fewest records that say the same: `recalled` of them is the memory."""
    records: list[JournalRecord] = [IncarnationTaken(memory.incarnation)]
    for key, asked in memory.kernels.items():
        records.append(KernelAsked(key, dict(asked.slots), dict(asked.devices), asked.boot))
        records.extend([KernelStarted(key)] if asked.started else [])
    for key, tombstone in memory.tombstones.items():
        records.append(KernelEntombed(key, tombstone.incarnation, tombstone.exit_code))
    return tuple(records)
