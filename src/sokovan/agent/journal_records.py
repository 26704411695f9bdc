"""What an agent must still know after it was killed, line by line.

The journal is the sum of its records; `recalled` adds one. Nothing here touches a file.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from sokovan.domain.ids import KernelId
from sokovan.wire.frames import CreateKernel, ForgetKernel, ReadLog, StopKernel

# More tombstones than this are kept only for kernels that are still listed.
TOMBSTONES_MAX = 10_000


class KernelKey(NamedTuple):
    """One attempt of one kernel: what requests are keyed by."""

    kernel_id: KernelId
    attempt: int

    @classmethod
    def of(cls, request: CreateKernel | StopKernel | ForgetKernel | ReadLog) -> KernelKey:
        """The attempt that a request refers to."""
        return cls(KernelId(request.kernel_id), request.attempt)

    def __str__(self) -> str:
        return f"kernel {self.kernel_id} (attempt {self.attempt})"


class IncarnationTaken(Struct, frozen=True, tag="incarnation"):
    """A manager has welcomed the agent as this incarnation."""

    incarnation: int


class KernelRequested(Struct, frozen=True, tag="asked"):
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
    IncarnationTaken | KernelRequested | KernelStarted | KernelWithdrawn | KernelEntombed | KernelForgotten
)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A promise that an attempt is over; `incarnation` is the one that gave it."""

    incarnation: int
    exit_code: int | None = None


class Tombstones(Mapping[KernelKey, Tombstone]):
    """Promises in the order they were given, found by attempt and by kernel.

    Only so many are kept. The oldest go, of kernels that are not listed here any more: a
    manager asks for no kernel that it has freed, and what it had asked for before that
    has long been answered or given up when so many others have ended.
    """

    __slots__ = ("_attempts", "_stones")

    def __init__(self, stones: Mapping[KernelKey, Tombstone] | None = None) -> None:
        self._stones: dict[KernelKey, Tombstone] = {}
        self._attempts: dict[KernelId, tuple[int, ...]] = {}
        for key, tombstone in (stones or {}).items():
            self._put(key, tombstone)

    def __getitem__(self, key: KernelKey) -> Tombstone:
        return self._stones[key]

    def __iter__(self) -> Iterator[KernelKey]:
        return iter(self._stones)

    def __len__(self) -> int:
        return len(self._stones)

    def __contains__(self, key: object) -> bool:
        return key in self._stones

    def __repr__(self) -> str:
        return f"Tombstones({self._stones!r})"

    def latest(self, kernel_id: KernelId) -> int:
        """The last attempt of a kernel that is over; 0 if none is."""
        return max(self._attempts.get(kernel_id, ()), default=0)

    def copy(self) -> Tombstones:
        """The same again, to be changed."""
        other = Tombstones()
        other._stones, other._attempts = dict(self._stones), dict(self._attempts)
        return other

    def lay(self, key: KernelKey, tombstone: Tombstone, *, held: Container[KernelKey]) -> None:
        """Add one; the oldest go if there are too many, but for those of `held`."""
        self._put(key, tombstone)
        excess = len(self._stones) - TOMBSTONES_MAX
        if excess > 0:
            old = (other for other in self._stones if other != key and other not in held)
            for other in list(islice(old, excess)):
                self._drop(other)

    def laid(self, key: KernelKey, tombstone: Tombstone, *, held: Container[KernelKey]) -> Tombstones:
        """These and one more."""
        more = self.copy()
        more.lay(key, tombstone, held=held)
        return more

    def standing(self, *, incarnation: int, held: Container[KernelKey]) -> Tombstones:
        """Those that a new incarnation still needs.

        A request names the incarnation it is meant for, so that those of an earlier one are
        refused without any tombstone. The last but one is kept for good measure, and so is
        whatever belongs to a kernel that is still listed.
        """
        return Tombstones(
            {key: one for key, one in self._stones.items() if one.incarnation >= incarnation - 1 or key in held}
        )

    def _put(self, key: KernelKey, tombstone: Tombstone) -> None:
        if key not in self._stones:
            self._attempts[key.kernel_id] = (*self._attempts.get(key.kernel_id, ()), key.attempt)
        self._stones[key] = tombstone

    def _drop(self, key: KernelKey) -> None:
        del self._stones[key]
        left = tuple(attempt for attempt in self._attempts.pop(key.kernel_id) if attempt != key.attempt)
        if left:
            self._attempts[key.kernel_id] = left


@dataclass(frozen=True, slots=True)
class RequestedKernel:
    """A kernel of the journal; `started` once that is certain."""

    slots: Mapping[str, int]
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    boot: str = ""
    started: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """What the journal says in sum."""

    incarnation: int = 0
    kernels: Mapping[KernelKey, RequestedKernel] = field(default_factory=dict)
    tombstones: Tombstones = field(default_factory=Tombstones)


def recalled(memory: Memory, records: Iterable[JournalRecord]) -> Memory:
    """The memory after these records."""
    incarnation, kernels, tombstones = memory.incarnation, dict(memory.kernels), memory.tombstones.copy()
    for record in records:
        match record:
            case IncarnationTaken():
                incarnation = record.incarnation
                tombstones = tombstones.standing(incarnation=incarnation, held=kernels)
            case KernelRequested():
                kernels[record.key] = RequestedKernel(record.slots, record.devices, record.boot)
            case KernelStarted() if record.key in kernels:
                kernels[record.key] = replace(kernels[record.key], started=True)
            case KernelWithdrawn() | KernelForgotten():
                kernels.pop(record.key, None)
            case KernelEntombed():
                tombstones.lay(record.key, Tombstone(record.incarnation, record.exit_code), held=kernels)
    return Memory(incarnation, kernels, tombstones)


def summary(memory: Memory) -> tuple[JournalRecord, ...]:
    """The fewest records that say the same: `recalled` of them is the memory."""
    records: list[JournalRecord] = [IncarnationTaken(memory.incarnation)]
    for key, asked in memory.kernels.items():
        records.append(KernelRequested(key, dict(asked.slots), dict(asked.devices), asked.boot))
        records.extend([KernelStarted(key)] if asked.started else [])
    for key, tombstone in memory.tombstones.items():
        records.append(KernelEntombed(key, tombstone.incarnation, tombstone.exit_code))
    return tuple(records)
