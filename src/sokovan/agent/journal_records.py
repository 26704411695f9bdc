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
from sokovan.wire.frames import CreateKernel, ForgetKernel, MeasureKernel, ReadLog, StopKernel

# Above this number, tombstones are kept only for kernels that are still listed.
TOMBSTONES_MAX = 10_000
# The part of that number which may be exceeded, and tombstones that are copied with each change.
_SPARE_PART = 16
_RECENT_MAX = 256


class KernelKey(NamedTuple):
    """One attempt of one kernel; identifies requests."""

    kernel_id: KernelId
    attempt: int

    @classmethod
    def of(cls, request: CreateKernel | StopKernel | ForgetKernel | ReadLog | MeasureKernel) -> KernelKey:
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
    """Nothing of this attempt runs, and it is never created again.

    `by_itself`: it had ended before it was asked to stop.
    """

    key: KernelKey
    incarnation: int
    exit_code: int | None = None
    by_itself: bool = False


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
    by_itself: bool = False


class Tombstones(Mapping[KernelKey, Tombstone]):
    """Tombstones in order of creation, indexed by attempt and by kernel.

    Their number is limited; the oldest of unlisted kernels are dropped first. By then a
    manager has freed those kernels, and its older requests were answered or have timed out.
    """

    __slots__ = ("_attempts", "_recent", "_settled")

    def __init__(self, tombstones: Mapping[KernelKey, Tombstone] | None = None) -> None:
        # The settled ones are shared by all copies and never change; a copy has the few recent ones of its own.
        self._settled: dict[KernelKey, Tombstone] = dict(tombstones or {})
        self._attempts = _attempts_of(self._settled)
        self._recent: dict[KernelKey, Tombstone] = {}

    def __getitem__(self, key: KernelKey) -> Tombstone:
        found = self._recent.get(key)
        return self._settled[key] if found is None else found

    def __iter__(self) -> Iterator[KernelKey]:
        yield from self._settled
        yield from (key for key in self._recent if key not in self._settled)

    def __len__(self) -> int:
        return len(self._settled) + sum(key not in self._settled for key in self._recent)

    def __contains__(self, key: object) -> bool:
        return key in self._recent or key in self._settled

    def __repr__(self) -> str:
        return f"Tombstones({dict(self)!r})"

    def latest(self, kernel_id: KernelId) -> int:
        """The latest ended attempt of a kernel; 0 if there is none."""
        recent = [key.attempt for key in self._recent if key.kernel_id == kernel_id]
        return max((*self._attempts.get(kernel_id, ()), *recent), default=0)

    def copy(self) -> Tombstones:
        """A copy that can be changed."""
        other = Tombstones()
        other._settled, other._attempts, other._recent = self._settled, self._attempts, dict(self._recent)
        return other

    def add(self, key: KernelKey, tombstone: Tombstone, *, listed: Container[KernelKey]) -> None:
        """Add a tombstone; drops the oldest unlisted ones above the limit.

        All of them are read only once for many additions, so that the limit is exceeded
        by a few at times.
        """
        self._recent[key] = tombstone
        is_full = len(self._settled) + len(self._recent) > TOMBSTONES_MAX + TOMBSTONES_MAX // _SPARE_PART
        if is_full or len(self._recent) > _RECENT_MAX:
            self._settle(key, listed)

    def adding(self, key: KernelKey, tombstone: Tombstone, *, listed: Container[KernelKey]) -> Tombstones:
        """A copy with one more tombstone."""
        more = self.copy()
        more.add(key, tombstone, listed=listed)
        return more

    def _settle(self, latest: KernelKey, listed: Container[KernelKey]) -> None:
        merged = {**self._settled, **self._recent}
        excess = len(merged) - TOMBSTONES_MAX
        if excess > 0:
            old = (key for key in merged if key != latest and key not in listed)
            for key in list(islice(old, excess)):
                del merged[key]
        self._settled, self._attempts, self._recent = merged, _attempts_of(merged), {}

    def retained(self, *, incarnation: int, listed: Container[KernelKey]) -> Tombstones:
        """The tombstones that a new incarnation still needs.

        Requests to earlier incarnations are refused without a tombstone. Those of the
        previous incarnation and of listed kernels are kept as a margin.
        """
        return Tombstones(
            {key: one for key, one in self.items() if one.incarnation >= incarnation - 1 or key in listed}
        )


def _attempts_of(tombstones: Iterable[KernelKey]) -> dict[KernelId, tuple[int, ...]]:
    attempts: dict[KernelId, tuple[int, ...]] = {}
    for key in tombstones:
        attempts[key.kernel_id] = (*attempts.get(key.kernel_id, ()), key.attempt)
    return attempts


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
                tombstone = Tombstone(record.incarnation, record.exit_code, record.by_itself)
                tombstones.add(record.key, tombstone, listed=kernels)
    return JournalState(incarnation, kernels, tombstones)


def summary(state: JournalState) -> tuple[JournalRecord, ...]:
    """The fewest records that reproduce the state."""
    records: list[JournalRecord] = [IncarnationTaken(state.incarnation)]
    for key, requested in state.kernels.items():
        records.append(KernelRequested(key, dict(requested.slots), dict(requested.devices), requested.boot))
        records.extend([KernelStarted(key, requested.traces)] if requested.started else [])
    for key, tombstone in state.tombstones.items():
        records.append(KernelEntombed(key, tombstone.incarnation, tombstone.exit_code, tombstone.by_itself))
    return tuple(records)
