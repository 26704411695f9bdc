"""Validates, prepares, stores and audits session requests, in few transactions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sokovan.domain.errors import Conflict, IdempotencyConflict, SokovanError
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.plain_values import canonical_text
from sokovan.domain.problems import InvalidRequest, NameTaken, Problem, TooManyPending
from sokovan.domain.records import DETAIL_MAX, SUBMITTED, Change, SessionRecord, submitted_events
from sokovan.domain.session_request import Caller, SessionRequest
from sokovan.orchestrator.sessions.array_control import (
    STORED_TOGETHER,
    ArrayStorage,
    BegunArray,
    begun_earlier,
)
from sokovan.orchestrator.sessions.intake.pools import PoolCache
from sokovan.orchestrator.sessions.intake.preparer import PreparedSession, Preparer, check_name
from sokovan.orchestrator.sessions.intake.validation_context import (
    Dependencies,
    DependencyReader,
    IntakeContext,
    IntakeContextReader,
    IntakeQuery,
    PendingLimit,
    Pools,
)
from sokovan.orchestrator.sessions.user_changes import KERNELS_TOGETHER
from sokovan.ports.environment import Clock, IdSource
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.repositories.sessions import NewSession, RequestKey
from sokovan.ports.secrets import SecretBox
from sokovan.ports.storage import Store, UnitOfWork

RENAMED_MAX = 8
KEY_MAX = 255
# A request with a name or dependencies is looked up and checked for itself: it takes as long as so many kernels.
LOOKED_UP_AS = 40


class Submission(NamedTuple):
    """A session, and whether this request created it or an earlier equal one did."""

    session: SessionRecord
    fresh: bool


class KeyedRequest(NamedTuple):
    """A request of a batch, with its idempotency key."""

    request: SessionRequest
    key: str | None = None


class _Entry(NamedTuple):
    """A request with the state that was read for it before the transaction."""

    request: SessionRequest
    caller: Caller
    once: RequestKey | None
    pools: Pools
    dependencies: Dependencies

    def is_like(self, other: _Entry) -> bool:
        """Whether this request becomes the same session as another, but for name and ids."""
        if self.request.depends_on or self.pools is not other.pools or self.caller != other.caller:
            return False
        same_name = self.request.name == other.request.name
        return (self.request if same_name else replace(self.request, name=other.request.name)) == other.request


class _BatchPreparer:
    """Prepares the requests of one transaction.

    A sweep is many equal requests: those after the first are copies of its session.
    """

    def __init__(self, preparer: Preparer, pending: PendingLimit, unit: UnitOfWork) -> None:
        self._preparer, self._pending, self._reader = preparer, pending, IntakeContextReader(unit)
        self._last: tuple[_Entry, IntakeContext, PreparedSession] | None = None

    async def prepared(self, entry: _Entry, *, count: int = 0) -> PreparedSession:
        """The session of a request, of which `count` are to be stored. Raises InvalidRequest."""
        context, prepared = await self._prepared(entry)
        if count:
            problem = await self._pending.admit(self._reader, entry.caller.owner.user, context.policies, count)
            if problem:
                raise _too_many(problem, count)
        return prepared

    async def _prepared(self, entry: _Entry) -> tuple[IntakeContext, PreparedSession]:
        request, caller = entry.request, entry.caller
        if self._last is not None and entry.is_like(self._last[0]):
            _, context, first = self._last
            namesake = await self._reader.namesake(request.name, caller.owner.user)
            query = IntakeQuery(request, caller, replace(context, namesake=namesake) if namesake else context)
            return context, first._replace(spec=self._preparer.copied(first.spec, query))
        context = await self._reader.of(request, caller, pools=entry.pools, dependencies=entry.dependencies)
        free = replace(context, namesake=None)
        query = IntakeQuery(request, caller, context)
        try:
            prepared = self._preparer.prepare(IntakeQuery(request, caller, free))
        except InvalidRequest:
            if context.namesake is None:
                raise
            # With all problems, that of the name among them.
            return context, self._preparer.prepare(query)
        self._last = entry, free, prepared
        check_name(query)
        return context, prepared


class Submissions:
    """Stores requested sessions; concurrent requests share a transaction."""

    def __init__(
        self, store: Store, *, ids: IdSource, clock: Clock, names: Callable[[], str], secrets: SecretBox
    ) -> None:
        self._store, self._names, self._secrets = store, names, secrets
        self._preparer = Preparer(ids, names)
        self.arrays = ArrayStorage(store, ids)
        self._pools = PoolCache(store, clock)
        self._pending = PendingLimit(clock.monotonic_ms)

    def allow_sharing(self) -> None:
        """Accept sessions of all users for agents that do not isolate their kernels."""
        self._pools.shared = True

    async def prepared(self, request: SessionRequest, caller: Caller) -> PreparedSession:
        """The session that a request would create; stores nothing. Raises InvalidRequest."""
        entry = await self._entry(request, DependencyReader(caller), caller)
        return await self._store.read(lambda unit: self._batch(unit).prepared(entry))

    async def submit(self, request: SessionRequest, caller: Caller, *, key: str | None = None) -> Submission:
        """Store the requested session, or those of an array; gives the first.

        The same request with the same key returns the session it created before. Raises
        InvalidRequest, IdempotencyConflict.
        """
        once = None if key is None else self._request_key(request, caller, key)
        self._refuse_again(request, caller, once)
        entry = await self._entry(request, DependencyReader(caller), caller, once)
        if request.array is not None:
            submission = await self._submit_array(entry)
        else:
            submission = await self._store.run_batched(self._submit_batch, entry)
        self._count(submission)
        return submission

    async def submit_many(
        self, requests: Sequence[KeyedRequest], caller: Caller
    ) -> Sequence[Submission | SokovanError]:
        """Store requested sessions, each judged for itself.

        Few large ones share a transaction.

        None of the requests may be for an array.
        """
        outcomes: dict[int, Submission | SokovanError] = {}
        entries: dict[int, _Entry] = {}
        dependencies = DependencyReader(caller)
        for index, (request, key) in enumerate(requests):
            try:
                once = None if key is None else self._request_key(request, caller, key)
                self._refuse_again(request, caller, once)
                entries[index] = await self._entry(request, dependencies, caller, once)
            except SokovanError as refused:
                outcomes[index] = refused
        stored: list[Submission | Exception] = []
        for part in _parts(list(entries.values())):
            stored += await self._submit_part(part)
        for index, outcome in zip(entries, stored, strict=True):
            if not isinstance(outcome, Submission | SokovanError):
                raise outcome
            outcomes[index] = outcome
            if isinstance(outcome, Submission):
                self._count(outcome)
        return [outcomes[index] for index in range(len(requests))]

    def _refuse_again(self, request: SessionRequest, caller: Caller, once: RequestKey | None) -> None:
        """Refuse what would be refused as a moment ago, unless its key may have stored it before."""
        count = 1 if request.array is None else request.array.size
        problem = "" if once is not None else self._pending.refused_lately(caller.owner.user, count)
        if problem:
            raise _too_many(problem, count)

    async def _submit_part(self, part: Sequence[_Entry]) -> Sequence[Submission | Exception]:
        return await self._store.run(lambda unit: self._submit_batch(unit, part))

    def _count(self, submission: Submission) -> None:
        """Count a new session against the room known of its scaling group."""
        if submission.fresh:
            spec = submission.session.spec
            times = 1 if spec.array is None else spec.array.at_once or spec.array.size
            self._pools.take(spec.scaling_group, spec.requested_slots() * times)

    async def _submit_batch(self, unit: UnitOfWork, entries: Sequence[_Entry]) -> Sequence[Submission | Exception]:
        """Validate, store and audit a batch; one failure does not affect the others."""
        batch = self._batch(unit)
        outcomes: dict[int, Submission | Exception] = {}
        fresh: dict[int, NewSession] = {}
        for index, entry in enumerate(entries):
            try:
                prepared = await batch.prepared(entry, count=1)
            except InvalidRequest as refused:
                outcomes[index] = await _earlier(unit, entry.once, refused)
            else:
                fresh[index] = NewSession(prepared.spec, _by(prepared), entry.once, self._sealed(entry))
        unnamed = {index for index in fresh if not entries[index].request.name}
        outcomes.update(await self._store_new(unit, fresh, unnamed))
        created = [one.session for one in outcomes.values() if isinstance(one, Submission) and one.fresh]
        if created:
            await unit.audit.append(*map(_audit_entry, created))
            await unit.emit(submitted_events(unit.now_ms, [one.spec for one in created]))
        return [outcomes[index] for index in range(len(entries))]

    async def _submit_array(self, entry: _Entry) -> Submission:
        """Store an array with its first sessions in one transaction, and then the others.

        From the first transaction on it is stored, whatever happens to the request.
        """
        for tries in range(RENAMED_MAX + 1):
            try:
                begun, fresh = await self._store.run(lambda unit: self._begin_array(unit, entry))
            except Conflict as conflict:
                # The name was taken, or the key used, after the check: on the next try the check finds it.
                generated = not entry.request.name and _is_name_taken(conflict)
                if tries == RENAMED_MAX or not (generated or entry.once is not None):
                    raise (_name_taken(entry.request.name) if entry.request.name else conflict) from conflict
            else:
                await self.arrays.complete(begun.array, begun.submitted)
                return Submission(begun.first, fresh)
        raise Conflict("the array could not be stored")

    async def _begin_array(self, unit: UnitOfWork, entry: _Entry) -> tuple[BegunArray, bool]:
        """Store the first sessions of an array, unless it was stored before; whether it is new."""
        earlier = None if entry.once is None else await unit.sessions.requested(entry.once)
        if earlier is not None:
            return await begun_earlier(unit, earlier), False
        size = 0 if entry.request.array is None else entry.request.array.size
        prepared = await self._batch(unit).prepared(entry, count=size)
        first = NewSession(prepared.spec, _by(prepared), entry.once, self._sealed(entry))
        begun = await self.arrays.begin(unit, first, entry.request)
        if begun.first.session_id != prepared.spec.session_id:
            raise Conflict("the same request was stored concurrently")
        return begun, True

    def _request_key(self, request: SessionRequest, caller: Caller, key: str) -> RequestKey:
        return request_key(request, caller, key, digest=self._secrets.digest if request.secrets else None)

    def _sealed(self, entry: _Entry) -> str:
        """The secrets of a request as they are stored; the values exist nowhere else."""
        given = entry.request.secrets
        return self._secrets.seal(given, owner=entry.caller.owner.user) if given else ""

    async def _entry(
        self,
        request: SessionRequest,
        dependencies: DependencyReader,
        caller: Caller,
        once: RequestKey | None = None,
    ) -> _Entry:
        """Read slow state before the shared transaction, so that other requests do not wait.

        Sessions are removed long after their end, so dependencies found here still exist when it is
        stored; else the store refuses it.
        """
        pools = await self._pools.for_request(request)
        found: Dependencies = {}
        if request.depends_on:
            found = await self._store.read(lambda unit: dependencies.read(unit, request.depends_on))
        return _Entry(request, caller, once, pools, found)

    def _batch(self, unit: UnitOfWork) -> _BatchPreparer:
        return _BatchPreparer(self._preparer, self._pending, unit)

    async def _store_new(
        self, unit: UnitOfWork, fresh: Mapping[int, NewSession], unnamed: Collection[int]
    ) -> dict[int, Submission | Exception]:
        """Store new sessions; a generated name that is taken is generated again."""
        outcomes: dict[int, Submission | Exception] = {}
        left, tries = dict(fresh), 0
        while left:
            results = dict(zip(left, await unit.sessions.enqueue_many(list(left.values())), strict=True))
            retry = {index for index, result in results.items() if index in unnamed and _is_name_taken(result)}
            retry = retry if tries < RENAMED_MAX else set()
            for index in results.keys() - retry:
                outcomes[index] = _submission(left[index], results[index])
            left = {index: self._renamed(left[index]) for index in sorted(retry)}
            tries += 1
        return outcomes

    def _renamed(self, new: NewSession) -> NewSession:
        return replace(new, spec=replace(new.spec, name=self._names()))


def _too_many(problem: str, count: int) -> TooManyPending:
    return TooManyPending([Problem("array" if count > 1 else "session", problem)])


def _parts(entries: Sequence[_Entry]) -> Iterator[list[_Entry]]:
    """The requests in parts that are not too long for a transaction."""
    part: list[_Entry] = []
    kernels = 0
    for entry in entries:
        size = sum(group.size for group in entry.request.groups) or entry.request.size
        size = max(size, LOOKED_UP_AS) if entry.request.name or entry.request.depends_on else size
        if part and (kernels + size > KERNELS_TOGETHER or len(part) >= STORED_TOGETHER):
            yield part
            part, kernels = [], 0
        part.append(entry)
        kernels += size
    if part:
        yield part


def request_key(
    request: SessionRequest, caller: Caller, key: str, *, digest: Callable[[str], str] | None = None
) -> RequestKey:
    """A caller's idempotency key with a digest of the request. Raises InvalidRequest.

    `digest` is the function for a request with secrets, which could be guessed from a plain one.
    """
    if not 1 <= len(key) <= KEY_MAX or not key.isascii() or not key.isprintable():
        raise InvalidRequest([Problem("Idempotency-Key", f"is not 1 to {KEY_MAX} printable ASCII characters")])
    text = canonical_text(request)
    known = digest(text) if digest is not None else hashlib.sha256(text.encode()).hexdigest()
    return RequestKey(scope=caller.owner.access_key, key=key, digest=known)


async def _earlier(unit: UnitOfWork, once: RequestKey | None, refused: InvalidRequest) -> Submission | Exception:
    """The session that the same request created before; else the refusal.

    A repeated request may fail validation: its name is taken by the session it created.
    """
    try:
        session = None if once is None else await unit.sessions.requested(once)
    except IdempotencyConflict as conflict:
        return conflict
    return refused if session is None else Submission(session, fresh=False)


def _by(prepared: PreparedSession) -> Change:
    detail = prepared.why_group[:DETAIL_MAX]
    return Change(who=prepared.spec.owner.user, by=Cause.CONTROLLER, code=SUBMITTED, detail=detail)


def _is_name_taken(result: SessionRecord | SokovanError) -> bool:
    return isinstance(result, Conflict) and not isinstance(result, IdempotencyConflict)


def _submission(new: NewSession, result: SessionRecord | SokovanError) -> Submission | Exception:
    if _is_name_taken(result):
        return _name_taken(new.spec.name)
    if isinstance(result, SokovanError):
        return result
    return Submission(result, fresh=result.session_id == new.spec.session_id)


def _name_taken(name: str) -> NameTaken:
    """The error of a name that was taken after the check, which gives the same one."""
    return NameTaken([Problem("name", f"{name} is taken by another of your sessions, which has not ended")])


def _audit_entry(session: SessionRecord) -> AuditEntry:
    spec, owner = session.spec, session.spec.owner
    detail = {"name": spec.name, "group": owner.group, "access_key": owner.access_key}
    return AuditEntry(owner.user, "session.enqueue", session.session_id, "done", detail=detail)
