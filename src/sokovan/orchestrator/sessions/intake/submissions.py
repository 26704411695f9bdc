"""Requests become sessions: judged, prepared, stored and audited in one step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sokovan.domain.errors import Conflict, IdempotencyConflict, SokovanError
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.problems import InvalidRequest
from sokovan.domain.records import Change, SessionRecord
from sokovan.domain.session import SessionSpec
from sokovan.orchestrator.sessions.intake.pools import KnownPools
from sokovan.orchestrator.sessions.intake.preparer import Preparer
from sokovan.orchestrator.sessions.intake.request_keys import request_key
from sokovan.orchestrator.sessions.intake.requests import Caller, SessionRequest
from sokovan.orchestrator.sessions.intake.resource_calculator import named_slots
from sokovan.orchestrator.sessions.intake.validation_context import (
    DEFAULT,
    Dependencies,
    IntakeContextReader,
    IntakeQuery,
    Pools,
    read_dependencies,
)
from sokovan.ports.environment import Clock, IdSource
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.repositories.sessions import NewSession, RequestKey
from sokovan.ports.storage import Store, UnitOfWork

RENAMED_MAX = 8


class Submission(NamedTuple):
    """A session, and whether this very request made it or an equal one before."""

    session: SessionRecord
    fresh: bool


class _Wish(NamedTuple):
    """A request on its way in.

    `pools` are the agents of the scaling groups, `dependencies` the sessions that it may
    mean.
    """

    request: SessionRequest
    caller: Caller
    once: RequestKey | None
    pools: Pools
    dependencies: Dependencies


class Submissions:
    """Takes requests in; those that come together share a transaction."""

    def __init__(self, store: Store, *, ids: IdSource, clock: Clock, names: Callable[[], str]) -> None:
        self._store, self._names = store, names
        self._preparer = Preparer(ids, names)
        self._pools = KnownPools(store, clock)

    async def prepared(self, request: SessionRequest, caller: Caller) -> SessionSpec:
        """The session that a request would make; nothing is stored. Raises InvalidRequest."""
        wish = await self._wish(request, caller)
        return await self._store.read(lambda unit: self._prepared(IntakeContextReader(unit), wish))

    async def submit(self, request: SessionRequest, caller: Caller, *, key: str | None = None) -> Submission:
        """Store the session that a request asks for.

        The same request with the same key gives the session it made before. Raises
        InvalidRequest, IdempotencyConflict.
        """
        once = None if key is None else request_key(request, caller, key)
        return await self._store.run_batched(self._take_in, await self._wish(request, caller, once))

    async def _take_in(self, unit: UnitOfWork, wishes: Sequence[_Wish]) -> Sequence[Submission | Exception]:
        """Judge, store and audit what came together, each for itself."""
        facts = IntakeContextReader(unit)
        outcomes: dict[int, Submission | Exception] = {}
        fresh: dict[int, NewSession] = {}
        for place, wish in enumerate(wishes):
            try:
                spec = await self._prepared(facts, wish)
            except InvalidRequest as refused:
                outcomes[place] = await _earlier(unit, wish.once, refused)
            else:
                fresh[place] = NewSession(spec, _by(spec), wish.once)
        renamed = {place for place in fresh if not wishes[place].request.name}
        outcomes.update(await self._stored(unit, fresh, renamed))
        made = [one.session for one in outcomes.values() if isinstance(one, Submission) and one.fresh]
        if made:
            await unit.audit.append(*map(_entry, made))
        return [outcomes[place] for place in range(len(wishes))]

    async def _wish(self, request: SessionRequest, caller: Caller, once: RequestKey | None = None) -> _Wish:
        """A request with what takes long to look up, so that nobody else waits for it.

        Sessions are never removed, so what is found now is there when it is stored.
        """
        pools = await self._pools.current(request.scaling_group or DEFAULT, named_slots(request))
        found: Dependencies = {}
        if request.depends_on:
            found = await self._store.read(lambda unit: read_dependencies(unit, request.depends_on, caller))
        return _Wish(request, caller, once, pools, found)

    async def _prepared(self, facts: IntakeContextReader, wish: _Wish) -> SessionSpec:
        found = await facts.of(wish.request, wish.caller, pools=wish.pools, dependencies=wish.dependencies)
        return self._preparer.prepare(IntakeQuery(wish.request, wish.caller, found))

    async def _stored(
        self, unit: UnitOfWork, fresh: Mapping[int, NewSession], renamed: Collection[int]
    ) -> dict[int, Submission | Exception]:
        """What came of new sessions; a name that was made up is made up again if it is taken."""
        outcomes: dict[int, Submission | Exception] = {}
        left, tries = dict(fresh), 0
        while left:
            results = dict(zip(left, await unit.sessions.enqueue_many(list(left.values())), strict=True))
            again = {place for place, result in results.items() if place in renamed and _is_name_taken(result)}
            again = again if tries < RENAMED_MAX else set()
            for place in results.keys() - again:
                outcomes[place] = _submission(left[place], results[place])
            left = {place: self._renamed(left[place]) for place in sorted(again)}
            tries += 1
        return outcomes

    def _renamed(self, new: NewSession) -> NewSession:
        return replace(new, spec=replace(new.spec, name=self._names()))


async def _earlier(unit: UnitOfWork, once: RequestKey | None, refused: InvalidRequest) -> Submission | Exception:
    """The session that the same request made before; the refusal if it made none.

    What was fine the first time may be refused now: the name is taken, by the very
    session.
    """
    try:
        session = None if once is None else await unit.sessions.requested(once)
    except IdempotencyConflict as conflict:
        return conflict
    return refused if session is None else Submission(session, fresh=False)


def _by(spec: SessionSpec) -> Change:
    return Change(who=spec.owner.user, by=Cause.CONTROLLER, code="submitted")


def _is_name_taken(result: SessionRecord | SokovanError) -> bool:
    return isinstance(result, Conflict) and not isinstance(result, IdempotencyConflict)


def _submission(new: NewSession, result: SessionRecord | SokovanError) -> Submission | Exception:
    if isinstance(result, SokovanError):
        return result
    return Submission(result, fresh=result.session_id == new.spec.session_id)


def _entry(session: SessionRecord) -> AuditEntry:
    spec, owner = session.spec, session.spec.owner
    detail = {"name": spec.name, "group": owner.group, "access_key": owner.access_key}
    return AuditEntry(owner.user, "session.enqueue", session.session_id, "done", detail=detail)
