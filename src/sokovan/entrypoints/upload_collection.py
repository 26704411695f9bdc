"""Removes uploads that no session uses, by their retention."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.owners.uploads import upload_reference
from sokovan.domain.records import SessionRecord
from sokovan.ports.environment import Clock
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import Store
from sokovan.ports.uploads import UploadStore

COLLECT_EVERY_S = 3600.0
_PAGE = 500


async def used_uploads(store: Store) -> set[str]:
    """The references of the uploads of all sessions that have not ended."""
    live = SessionFilter(statuses=[status for status in SessionStatus if status not in SESSION.terminal])
    found: set[str] = set()
    after: int | None = None
    while True:
        page = await _page(store, live, after)
        specs = [record.spec for record in page]
        found |= {upload_reference(spec.owner.user, spec.upload) for spec in specs if spec.upload}
        if len(page) < _PAGE:
            return found
        after = page[-1].place


async def _page(store: Store, wanted: SessionFilter, after: int | None) -> Sequence[SessionRecord]:
    return await store.read(lambda unit: unit.sessions.page(wanted, limit=_PAGE, after=after))


async def collect_uploads(store: Store, uploads: UploadStore, clock: Clock, log: Callable[[str], None]) -> None:
    """Remove what was not used within the retention, every hour; runs until cancelled."""
    while True:
        removed = await uploads.collect(await used_uploads(store))
        if removed:
            log(f"{removed} files of unused uploads were removed")
        await clock.sleep(COLLECT_EVERY_S)
