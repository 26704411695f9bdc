"""Requests become sessions: judged, prepared, stored and audited in one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from sokovan.domain.errors import Conflict, IdempotencyConflict
from sokovan.domain.lifecycle.machine import Cause
from sokovan.domain.record import Change, SessionRecord
from sokovan.domain.scaling_group import ScalingGroup
from sokovan.domain.session import SessionSpec
from sokovan.orchestrator.sessions.preparation.architectures import UsualArchitectures
from sokovan.orchestrator.sessions.preparation.facts import Asked, read_facts
from sokovan.orchestrator.sessions.preparation.preparer import Preparer
from sokovan.orchestrator.sessions.preparation.problems import InvalidRequest
from sokovan.orchestrator.sessions.preparation.request_keys import request_key, trial_session
from sokovan.orchestrator.sessions.requests import Caller, SessionRequest
from sokovan.ports.audit import AuditEntry
from sokovan.ports.environment import Clock, IdSource
from sokovan.ports.sessions import RequestKey
from sokovan.ports.storage import Store, UnitOfWork

RENAMED_MAX = 8


class Submission(NamedTuple):
    """A session, and whether this very request made it or an equal one before."""

    session: SessionRecord
    fresh: bool


class Submissions:
    """Takes requests in."""

    def __init__(self, store: Store, *, ids: IdSource, clock: Clock, names: Callable[[], str]) -> None:
        self._store, self._ids, self._names = store, ids, names
        self._preparer = Preparer(ids, names)
        self._architectures = UsualArchitectures(store, clock)

    async def prepared(self, request: SessionRequest, caller: Caller) -> SessionSpec:
        """The session that a request would make; nothing is stored. Raises InvalidRequest."""
        usual = await self._architectures.current()
        return await self._store.read(lambda unit: self._prepared(unit, request, caller, usual))

    async def submit(self, request: SessionRequest, caller: Caller, *, key: str | None = None) -> Submission:
        """Store the session that a request asks for.

        The same request with the same key gives the session it made before. Raises
        InvalidRequest, IdempotencyConflict.
        """
        once = None if key is None else request_key(request, caller, key)
        usual = await self._architectures.current()

        async def work(unit: UnitOfWork) -> Submission:
            try:
                spec = await self._prepared(unit, request, caller, usual)
            except InvalidRequest as refused:
                # What was fine the first time may be refused now: the name is taken, by the very session.
                return await self._earlier(unit, once, refused)
            session = await self._stored(unit, spec, once, renaming=not request.name)
            fresh = session.session_id == spec.session_id
            if fresh:
                await unit.audit.append(_entry(session, caller))
            return Submission(session, fresh)

        return await self._store.run(work)

    async def _prepared(
        self, unit: UnitOfWork, request: SessionRequest, caller: Caller, usual: Mapping[str, str]
    ) -> SessionSpec:
        facts = await read_facts(unit, request, caller, architectures=usual)
        return self._preparer.prepare(Asked(request, caller, facts))

    async def _stored(
        self, unit: UnitOfWork, spec: SessionSpec, once: RequestKey | None, *, renaming: bool
    ) -> SessionRecord:
        """Store a session; a name that was made up is made up again if it is taken."""
        change = Change(who=spec.owner.user, by=Cause.CONTROLLER, code="submitted")
        for _ in range(RENAMED_MAX if renaming else 0):
            try:
                return await unit.sessions.enqueue(spec, change, request=once)
            except IdempotencyConflict:
                raise
            except Conflict:
                spec = replace(spec, name=self._names())
        return await unit.sessions.enqueue(spec, change, request=once)

    async def _earlier(self, unit: UnitOfWork, once: RequestKey | None, refused: InvalidRequest) -> Submission:
        """The session that the same request made before. Raises `refused` if it made none."""
        groups = [] if once is None else await unit.catalog.all(ScalingGroup)
        if not groups:
            raise refused
        # Only storing a session tells whether a key is known; the refusal takes this one back.
        trial = trial_session(self._ids, groups[0].name)
        session = await unit.sessions.enqueue(trial, Change(who="", by=Cause.CONTROLLER), request=once)
        if session.session_id == trial.session_id:
            raise refused
        return Submission(session, fresh=False)


def _entry(session: SessionRecord, caller: Caller) -> AuditEntry:
    detail = {"name": session.spec.name, "group": session.spec.owner.group, "access_key": caller.owner.access_key}
    return AuditEntry(caller.owner.user, "session.enqueue", session.session_id, "done", detail=detail)
