"""Records of the agent's journal, and the state they add up to.

`replayed` applies records to a state. No file access here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from sokovan.domain.ids import KernelId
from sokovan.wire.frames import CreateKernel, ForgetKernel, ReadLog, StopKernel

# Above this number, tombstones are kept only for kernels that are still listed.
TOMBSTONES_MAX = 10_000


class KernelKey(NamedTuple):
    """One attempt of one kernel; identifies requests."""

    kernel_id: KernelId
    attempt: int

    @classmethod
    def of(cls, request: CreateKernel | StopKernel | ForgetKernel | ReadLog) -> KernelKey:
        """The attempt that a request refers to."""
        return cls(KernelId(request.kernel_id), request.attempt)

    def __str__(self) -> str:
        return f"kernel {self.kernel_id} (attempt {self.attempt})"


class IncarnationTaken(Struct, frozen=True, tag="incarnation"):
    """A manager has accepted the agent as this incarnation."""

    incarnation: int


class KernelRequested(Struct, frozen=True, tag="asked"):
    """A kernel is about to be started.

    `boot` identifies the boot of the machine, if known.
    """

    key: KernelKey
    slots: dict[str, int]
    devices: dict[str, tuple[str, ...]] = {}
    boot: str = ""


class KernelStarted(Struct, frozen=True, tag="started"):
    """A kernel was started; `traces` identify its processes without its files."""

    key: KernelKey
    traces: str = ""


class KernelWithdrawn(Struct, frozen=True, tag="withdrawn"):
    """A kernel could not be started and nothing of it runs; it may be retried."""

    key: KernelKey


class KernelEntombed(Struct, frozen=True, tag="tombstone"):
    """Nothing of this attempt runs, and it is never created again."""

    key: KernelKey
    incarnation: int
    exit_code: int | None = None


class KernelForgotten(Struct, frozen=True, tag="forgotten"):
    """The data kept for an ended kernel is no longer needed."""

    key: KernelKey


JournalRecord: TypeAlias = (
    IncarnationTaken | KernelRequested | KernelStarted | KernelWithdrawn | KernelEntombed | KernelForgotten
)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Marks an ended attempt; `incarnation` is the one that wrote it."""

    incarnation: int
    exit_code: int | None = None


class Tombstones(Mapping[KernelKey, Tombstone]):
    """Tombstones in order of creation, indexed by attempt and by kernel.

    Their number is limited; the oldest of unlisted kernels are dropped first. By then a
    manager has freed those kernels, and its older requests were answered or have timed out.
    """

    __slots__ = ("_attempts", "_tombstones")

    def __init__(self, tombstones: Mapping[KernelKey, Tombstone] | None = None) -> None:
        self._tombstones: dict[KernelKey, Tombstone] = {}
        self._attempts: dict[KernelId, tuple[int, ...]] = {}
        for key, tombstone in (tombstones or {}).items():
            self._put(key, tombstone)

    def __getitem__(self, key: KernelKey) -> Tombstone:
        return self._tombstones[key]

    def __iter__(self) -> Iterator[KernelKey]:
        return iter(self._tombstones)

    def __len__(self) -> int:
        return len(self._tombstones)

    def __contains__(self, key: object) -> bool:
        return key in self._tombstones

    def __repr__(self) -> str:
        return f"Tombstones({self._tombstones!r})"

    def latest(self, kernel_id: KernelId) -> int:
        """The latest ended attempt of a kernel; 0 if there is none."""
        return max(self._attempts.get(kernel_id, ()), default=0)

    def copy(self) -> Tombstones:
        """A copy that can be changed."""
        other = Tombstones()
        other._tombstones, other._attempts = dict(self._tombstones), dict(self._attempts)
        return other

    def add(self, key: KernelKey, tombstone: Tombstone, *, listed: Container[KernelKey]) -> None:
        """Add a tombstone; drops the oldest unlisted ones above the limit."""
        self._put(key, tombstone)
        excess = len(self._tombstones) - TOMBSTONES_MAX
        if excess > 0:
            old = (other for other in self._tombstones if other != key and other not in listed)
            for other in list(islice(old, excess)):
                self._drop(other)

    def adding(self, key: KernelKey, tombstone: Tombstone, *, listed: Container[KernelKey]) -> Tombstones:
        """A copy with one more tombstone."""
        more = self.copy()
        more.add(key, tombstone, listed=listed)
        return more

    def retained(self, *, incarnation: int, listed: Container[KernelKey]) -> Tombstones:
        """The tombstones that a new incarnation still needs.

        Requests to earlier incarnations are refused without a tombstone. Those of the
        previous incarnation and of listed kernels are kept as a margin.
        """
        return Tombstones(
            {key: one for key, one in self._tombstones.items() if one.incarnation >= incarnation - 1 or key in listed}
        )

    def _put(self, key: KernelKey, tombstone: Tombstone) -> None:
        if key not in self._tombstones:
            self._attempts[key.kernel_id] = (*self._attempts.get(key.kernel_id, ()), key.attempt)
        self._tombstones[key] = tombstone

    def _drop(self, key: KernelKey) -> None:
        del self._tombstones[key]
        left = tuple(attempt for attempt in self._attempts.pop(key.kernel_id) if attempt != key.attempt)
        if left:
            self._attempts[key.kernel_id] = left


@dataclass(frozen=True, slots=True)
class RequestedKernel:
    """A kernel in the journal; `started` once that is certain."""

    slots: Mapping[str, int]
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    boot: str = ""
    started: bool = False
    traces: str = ""


@dataclass(frozen=True, slots=True)
class JournalState:
    """The state that the records of a journal add up to."""

    incarnation: int = 0
    kernels: Mapping[KernelKey, RequestedKernel] = field(default_factory=dict)
    tombstones: Tombstones = field(default_factory=Tombstones)


def replayed(state: JournalState, records: Iterable[JournalRecord]) -> JournalState:
    """The state after these records."""
    incarnation, kernels, tombstones = state.incarnation, dict(state.kernels), state.tombstones.copy()
    for record in records:
        match record:
            case IncarnationTaken():
                incarnation = record.incarnation
                tombstones = tombstones.retained(incarnation=incarnation, listed=kernels)
            case KernelRequested():
                kernels[record.key] = RequestedKernel(record.slots, record.devices, record.boot)
            case KernelStarted() if record.key in kernels:
                kernels[record.key] = replace(kernels[record.key], started=True, traces=record.traces)
            case KernelWithdrawn() | KernelForgotten():
                kernels.pop(record.key, None)
            case KernelEntombed():
                tombstones.add(record.key, Tombstone(record.incarnation, record.exit_code), listed=kernels)
    return JournalState(incarnation, kernels, tombstones)


def summary(state: JournalState) -> tuple[JournalRecord, ...]:
    """The fewest records that reproduce the state."""
    records: list[JournalRecord] = [IncarnationTaken(state.incarnation)]
    for key, requested in state.kernels.items():
        records.append(KernelRequested(key, dict(requested.slots), dict(requested.devices), requested.boot))
        records.extend([KernelStarted(key, requested.traces)] if requested.started else [])
    for key, tombstone in state.tombstones.items():
        records.append(KernelEntombed(key, tombstone.incarnation, tombstone.exit_code))
    return tuple(records)
