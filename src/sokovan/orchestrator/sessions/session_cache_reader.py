"""Reads the copy of live sessions: all of them once, then what changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.sessions.session_cache import SessionCache
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import Store, UnitOfWork

PAGE = 500
_LIVE = tuple(status for status in SessionStatus if status not in SESSION.terminal)


class SessionCacheReader:
    """Keeps a copy up to date. Changes are found by marks, never by events."""

    def __init__(self, live: SessionCache, store: Store) -> None:
        self._live, self._store = live, store
        self._mark: int | None = None

    async def load(self) -> None:
        """Read everything, page by page; what is written meanwhile `refresh` reads."""
        self._live.clear()
        self._mark, _ = await self._store.read(lambda unit: unit.sessions.changed(None))
        after: int | None = None
        while True:
            page = await self._store.read(_page_after(after))
            for record in page:
                self._live.put(record)
            if len(page) < PAGE:
                break
            after = page[-1].place
        for record in await self._store.read(self._lingering):
            self._live.put(record)

    async def refresh(self) -> None:
        """Read the sessions that others have written, and those that are in doubt."""
        live = self._live

        async def work(unit: UnitOfWork) -> tuple[int, int, list[SessionRecord]]:
            mark, versions = await unit.sessions.changed(self._mark)
            new = [one for one, version in versions.items() if not live.knows(one, version)]
            wanted = dict.fromkeys((*new, *live.doubtful))
            return unit.now_ms, mark, await _records(unit, list(wanted))

        live.now_ms, self._mark, records = await self._store.read(work)
        live.doubtful.clear()
        for record in records:
            live.put(record)

    async def _lingering(self, unit: UnitOfWork) -> list[SessionRecord]:
        """Sessions that were ended by force, and whose kernels hold what they held."""
        kernels: list[KernelRecord] = []
        for agent in await unit.fleet.all():
            kernels += await unit.ledger.kernels_on(agent.info.agent_id)
        ids = dict.fromkeys(one.session_id for one in kernels if self._live.get(one.session_id) is None)
        return await _records(unit, list(ids))


def _page_after(after: int | None) -> Callable[[UnitOfWork], Awaitable[Sequence[SessionRecord]]]:
    async def work(unit: UnitOfWork) -> Sequence[SessionRecord]:
        return await unit.sessions.page(SessionFilter(statuses=_LIVE), limit=PAGE, after=after)

    return work


async def _records(unit: UnitOfWork, ids: Sequence[SessionId]) -> list[SessionRecord]:
    found: list[SessionRecord] = []
    for start in range(0, len(ids), PAGE):
        found += await unit.sessions.page(SessionFilter(ids=ids[start : start + PAGE]), limit=PAGE)
    return found
