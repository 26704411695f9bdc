"""Filters events by what the caller may see."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.api.access.lookup import visible_filter
from sokovan.api.mapping.events import SHARED, event_view, session_of
from sokovan.domain.events import Event
from sokovan.domain.ids import SessionId
from sokovan.domain.owners.tenancy import Role
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import Store

KNOWN_MAX = 10_000
LOOKUP_BATCH = 200


class EventVisibility:
    """The events that one caller may see; the owner of a session is looked up once."""

    def __init__(self, store: Store, principal: AuthenticatedPrincipal) -> None:
        self._store, self._principal = store, principal
        self._known: OrderedDict[SessionId, bool] = OrderedDict()

    async def of(self, events: Sequence[Event]) -> list[Event]:
        """The visible ones of these events."""
        if self._principal.subject.role is Role.ADMIN:
            return list(events)
        about = {session_of(event) for event in events} - {None}
        await self._lookup([one for one in about if one is not None and one not in self._known])
        return [event for event in events if self._visible(event)]

    def _visible(self, event: Event) -> bool:
        about = session_of(event)
        return event_view(event).object in SHARED if about is None else self._known.get(about, False)

    async def _lookup(self, unknown: Sequence[SessionId]) -> None:
        for start in range(0, len(unknown), LOOKUP_BATCH):
            ids = unknown[start : start + LOOKUP_BATCH]
            own = await self._own(visible_filter(self._principal, SessionFilter(ids=ids)))
            self._known.update({one: one in own for one in ids})
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    async def _own(self, wanted: SessionFilter | None) -> set[SessionId]:
        if wanted is None:
            return set()
        found = await self._store.read(lambda unit: unit.sessions.page(wanted, limit=LOOKUP_BATCH))
        return {record.session_id for record in found}
