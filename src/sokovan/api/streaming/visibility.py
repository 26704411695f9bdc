"""Filters events by what the caller may see."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.api.mapping.events import SHARED, event_view, session_of
from sokovan.api.streaming.batch_reader import BatchReader
from sokovan.domain.events import Event, VerdictsChanged
from sokovan.domain.ids import SessionId
from sokovan.domain.owners.access import Ownership, session_scope
from sokovan.domain.owners.tenancy import Role
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import Store

KNOWN_MAX = 10_000
LOOKUP_BATCH = 200


class SessionOwners:
    """Whose sessions are; looked up once for all streams of this process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reads: BatchReader[SessionId, Ownership] = BatchReader(self._read, at_most=LOOKUP_BATCH)
        self._known: OrderedDict[SessionId, Ownership | None] = OrderedDict()

    async def of(self, session_ids: Iterable[SessionId]) -> Mapping[SessionId, Ownership | None]:
        """The owners of sessions; None for one that does not exist."""
        ids = list(session_ids)
        found = {one: self._known[one] for one in ids if one in self._known}
        if len(found) < len(ids):
            unknown = await self._reads.get(one for one in ids if one not in found)
            self._known.update(unknown)
            found.update(unknown)
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        return found

    async def _read(self, ids: Sequence[SessionId]) -> dict[SessionId, Ownership]:
        wanted = SessionFilter(ids=ids)
        found = await self._store.read(lambda unit: unit.sessions.summaries(wanted, limit=len(ids)))
        return {one.session_id: Ownership(user=one.spec.owner.user, domain=one.spec.owner.domain) for one in found}


class EventVisibility:
    """The events that one caller may see."""

    def __init__(self, owners: SessionOwners, principal: AuthenticatedPrincipal) -> None:
        self._owners = owners
        self._sees_all = principal.subject.role is Role.ADMIN
        self._scope = session_scope(principal.subject)

    async def of(self, events: Sequence[Event]) -> list[Event]:
        """The visible ones of these events."""
        if self._sees_all:
            return list(events)
        about = dict.fromkeys(one for event in events if (one := session_of(event)) is not None)
        owners = await self._owners.of(about)
        return [event for event in events if self._visible(event, owners)]

    async def of_reasons(self, reasons: Mapping[SessionId, VerdictsChanged]) -> list[VerdictsChanged]:
        """The new reasons of visible sessions, one event for each reason."""
        owners = {} if self._sees_all else await self._owners.of(reasons)
        found: dict[str, list[SessionId]] = {}
        for session_id, event in reasons.items():
            if self._sees_all or self._owned(owners[session_id]):
                found.setdefault(event.code, []).append(session_id)
        at_ms = max((event.at_ms for event in reasons.values()), default=0)
        return [VerdictsChanged(at_ms=at_ms, session_ids=tuple(ids), code=code) for code, ids in found.items()]

    def _visible(self, event: Event, owners: Mapping[SessionId, Ownership | None]) -> bool:
        about = session_of(event)
        if about is None:
            return event_view(event).object in SHARED
        return self._owned(owners[about])

    def _owned(self, owner: Ownership | None) -> bool:
        scope = self._scope
        return owner is not None and scope.user in {"", owner.user} and scope.domain in {"", owner.domain}
