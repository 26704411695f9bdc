"""Stores and changes all sessions of an array, in bounded transactions.

Each change is idempotent, so that a request that was interrupted can be repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

from sokovan.domain.arrays import array_name, read_array
from sokovan.domain.errors import ObjectNotFound, OutcomeUnknown, SokovanError, StoreUnavailable
from sokovan.domain.lifecycle.session import SESSION, Goal, SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.records import RELEASED, SUBMITTED, ArrayRecord, Change, SessionRecord, submitted_events
from sokovan.domain.session import SessionSpec
from sokovan.domain.session_request import Caller, SessionRequest
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.orchestrator.sessions.user_changes import KERNELS_TOGETHER, change_by, may_change, termination
from sokovan.orchestrator.uncancellable_tasks import UncancellableTasks
from sokovan.ports.environment import IdSource
from sokovan.ports.hints import Hints
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.repositories.sessions import NewSession, SessionFilter
from sokovan.ports.storage import Store, UnitOfWork

AT_ONCE = 500
# Sessions of an array that are stored in one transaction: other writers wait for it.
STORED_TOGETHER = 100
# Characters of the indexes of an array in the audit log.
SHOWN_MAX = 255
PENDING = (SessionStatus.PENDING,)
STARTED = tuple(one for one in SessionStatus if one not in {SessionStatus.PENDING, *SESSION.terminal})

# Changes some sessions; whether any of them changed.
_Step: TypeAlias = Callable[[UnitOfWork, Sequence[SessionRecord]], Awaitable[bool]]


class BegunArray(NamedTuple):
    """An array that is stored, perhaps without its last sessions, and its first one.

    `submitted` is that as it was submitted, if it is known.
    """

    array: ArrayRecord
    first: SessionRecord
    submitted: NewSession | None = None


class ArrayStorage:
    """Stores the sessions of arrays, some of them per transaction.

    The array is stored with its first sessions, and with the number of those that follow:
    what interrupts it, another one completes.
    """

    def __init__(self, store: Store, ids: IdSource) -> None:
        self._store, self._ids = store, ids

    async def begin(self, unit: UnitOfWork, first: NewSession, request: SessionRequest) -> BegunArray:
        """Store the requested array with its first sessions. Raises SokovanError."""
        together, array = part_size(first.spec), _record(first.spec, request)
        array = replace(array, unstored=max(0, array.size - together))
        await unit.arrays.add(array)
        members = self._members(first, read_array(array.indexes).indexes[1:together])
        stored = await _stored(unit, [first, *members])
        await unit.audit.append(_submitted_entry(array))
        return BegunArray(array, stored[0], first)

    async def complete(self, array: ArrayRecord, first: NewSession | None = None, *, parts: int | None = None) -> bool:
        """Store the sessions that are still to be stored, in at most so many parts.

        `first` is the first session of the array as it was submitted; without it, the oldest
        of its sessions. Returns whether all are stored. Raises OutcomeUnknown; and the error of a
        session that cannot be stored: then none follows.
        """
        indexes = read_array(array.indexes).indexes
        while array.unstored and (parts is None or parts > 0):
            parts = None if parts is None else parts - 1
            try:
                first = first or await self._oldest(array)
                array = await self._store_part(array, first, indexes)
            except StoreUnavailable as error:
                text = f"the database failed while array {array.name} was stored; the rest of it follows"
                raise OutcomeUnknown(f"{text}: {error.message}") from error
            except SokovanError:
                await self._store.run(partial(_give_up, array=array))
                raise
        return not array.unstored

    async def _store_part(self, array: ArrayRecord, first: NewSession, indexes: Sequence[int]) -> ArrayRecord:
        """Store the next sessions; the array as it is then."""
        begun = array.size - array.unstored
        chosen = indexes[begun : begun + part_size(first.spec)]

        async def work(unit: UnitOfWork) -> ArrayRecord:
            if not await unit.arrays.take_unstored(array, len(chosen)):
                [now] = await unit.arrays.named(array.array_id, SessionFilter()) or [replace(array, unstored=0)]
                return now
            await _stored(unit, self._members(first, chosen))
            return replace(array, unstored=array.unstored - len(chosen))

        return await self._store.run(work)

    async def _oldest(self, array: ArrayRecord) -> NewSession:
        """The first session of an array that was interrupted, as it is now."""
        wanted = SessionFilter(array_id=array.array_id)
        for one in await self._store.read(lambda unit: unit.sessions.page(wanted, limit=1)):
            change = Change(who=array.owner.user, by=Cause.CONTROLLER, code=SUBMITTED)
            return NewSession(one.spec, change, None, one.sealed)
        raise ObjectNotFound(what="session of array", name=array.name)

    def _members(self, first: NewSession, indexes: Sequence[int]) -> list[NewSession]:
        """Sessions equal to the first one of an array but for index and ids."""
        spec, array = first.spec, first.spec.array
        if array is None:
            return []
        members = [replace(array, index=index) for index in indexes]
        copies = [spec.copied(self._ids.new, name=one.named(spec.array_name), array=one) for one in members]
        return [replace(first, spec=one, request=None) for one in copies]


async def begun_earlier(unit: UnitOfWork, first: SessionRecord) -> BegunArray:
    """The array that an earlier request stored, of which this is the first session."""
    place = first.spec.array
    found = [] if place is None else await unit.arrays.named(place.array_id, SessionFilter())
    if not found:
        raise ObjectNotFound(what="array of session", name=first.session_id)
    return BegunArray(found[0], first)


def part_size(spec: SessionSpec) -> int:
    """How many sessions like this are stored in one transaction."""
    return max(1, min(STORED_TOGETHER, KERNELS_TOGETHER // len(spec.kernels)))


async def _give_up(unit: UnitOfWork, array: ArrayRecord) -> None:
    """Store nothing more of an array."""
    await unit.arrays.take_unstored(array, array.unstored)


async def _stored(unit: UnitOfWork, new: Sequence[NewSession]) -> list[SessionRecord]:
    """Store sessions, all or none: an error rolls the transaction back."""
    records = []
    for result in await unit.sessions.enqueue_many(new):
        if isinstance(result, SokovanError):
            raise result
        records.append(result)
    await unit.emit(submitted_events(unit.now_ms, [one.spec for one in new]))
    return records


class ArrayControl:
    """Ends and releases the sessions of arrays."""

    def __init__(self, store: Store, hints: Hints, tasks: UncancellableTasks, storage: ArrayStorage) -> None:
        self._store, self._hints, self._tasks, self._storage = store, hints, tasks, storage

    async def end(self, array: ArrayRecord, caller: Caller, *, forced: bool = False, reason: str = "") -> None:
        """Request the termination of all sessions of an array.

        Raises ObjectNotFound, also for an array of another user.
        """
        _require_access(array, caller)
        goal, change = termination(caller, forced=forced, reason=reason)
        await self._tasks.run(self._end(array, goal, change))

    async def _end(self, array: ArrayRecord, goal: Goal, change: Change) -> None:
        await self._storage.complete(array)

        async def step(unit: UnitOfWork, sessions: Sequence[SessionRecord]) -> bool:
            return bool(await unit.sessions.set_goals([one.session_id for one in sessions], goal, change))

        # Those that wait come first, so that none starts meanwhile.
        for statuses in (PENDING, STARTED):
            wanted = SessionFilter(array_id=array.array_id, statuses=statuses)
            await self._each(wanted, step, _entry("array.terminate", array, change))

    async def release(self, array: ArrayRecord, caller: Caller, *, gates: Sequence[str] = ()) -> None:
        """Release gates of all held sessions of an array, all gates if none are named.

        Raises ObjectNotFound, also for an array of another user.
        """
        _require_access(array, caller)
        await self._tasks.run(self._release(array, caller, gates))

    async def _release(self, array: ArrayRecord, caller: Caller, gates: Sequence[str]) -> None:
        await self._storage.complete(array)
        change = change_by(caller, RELEASED, ", ".join(gates) or "all gates")

        async def step(unit: UnitOfWork, sessions: Sequence[SessionRecord]) -> bool:
            opened = gates or sorted({gate for one in sessions for gate in one.spec.gates})
            held = [one.session_id for one in sessions if not set(one.spec.gates).isdisjoint(opened)]
            return bool(held and await unit.sessions.release_many(held, opened, change))

        wanted = SessionFilter(array_id=array.array_id, statuses=PENDING)
        await self._each(wanted, step, _entry("array.release", array, change))

    async def _each(self, wanted: SessionFilter, step: _Step, entry: AuditEntry) -> None:
        """Apply a step to all matching sessions, some of them per transaction."""
        after: int | None = None

        async def work(unit: UnitOfWork) -> tuple[int | None, bool]:
            page = await unit.sessions.page(wanted, limit=AT_ONCE, after=after)
            changed = await step(unit, page)
            if changed:
                await unit.audit.append(entry)
            return page[-1].place if len(page) == AT_ONCE else None, changed

        while True:
            after, changed = await self._store.run(work)
            if changed:
                await self._hints.set(SESSIONS_HINT)
            if after is None:
                return


def _require_access(array: ArrayRecord, caller: Caller) -> None:
    if not may_change(array.owner, caller):
        raise ObjectNotFound(what="array", name=array.name)


def _entry(action: str, array: ArrayRecord, change: Change) -> AuditEntry:
    detail = {"name": array.name, "code": change.code, "reason": change.detail}
    return AuditEntry(change.who, action, array.array_id, "done", detail=detail)


def _record(first: SessionSpec, request: SessionRequest) -> ArrayRecord:
    """The requested array, of which this session is the first."""
    if first.array is None or request.array is None:
        raise ValueError(f"session {first.session_id} is in no array")
    return ArrayRecord(
        array_id=first.array.array_id,
        name=array_name(first.name),
        owner=first.owner,
        scaling_group=first.scaling_group,
        queue=first.queue,
        indexes=request.array.text(),
        size=request.array.size,
        at_once=request.array.at_once,
    )


def _submitted_entry(array: ArrayRecord) -> AuditEntry:
    owner = array.owner
    detail = {
        "name": array.name,
        "indexes": array.indexes[:SHOWN_MAX],
        "size": str(array.size),
        "group": owner.group,
    }
    return AuditEntry(
        owner.user, "array.enqueue", array.array_id, "done", detail={**detail, "access_key": owner.access_key}
    )
