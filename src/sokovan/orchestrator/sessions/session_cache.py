"""Caches live sessions, indexed by the work they need.

The store is authoritative: a decision made on a stale copy fails its version check.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from enum import StrEnum, auto
from typing import TypeAlias

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS, KernelStatus
from sokovan.domain.lifecycle.session import SESSION, Goal, SessionStatus
from sokovan.domain.owners.session_turns import READ_AT_ONCE, UnreadSessions
from sokovan.domain.owners.turns import SLICES_MAX
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.domain.session import SessionSpec
from sokovan.ports.repositories.sessions import PAGE, SessionFilter
from sokovan.ports.storage import Store, UnitOfWork

SETTLED_MAX = 10_000
# Sessions with more kernels are large, and users with more to move are busy: the others need not wait for them.
LARGE = 64
# Kernels that are placed but whose image is not known to be ready.
UNPREPARED = frozenset({KernelStatus.SCHEDULED, KernelStatus.PREPARING, KernelStatus.PULLING})
# Kernels that agents list until they end.
REPORTED = frozenset({KernelStatus.CREATING, KernelStatus.RUNNING})
_BEGUN = tuple(status for status in SessionStatus if status not in {SessionStatus.PENDING, *SESSION.terminal})

# Receives a session that changed, as it was (None if it is new) and as it is.
SessionChanged: TypeAlias = Callable[[SessionRecord | None, SessionRecord], None]


class Need(StrEnum):
    """Work that a session needs; it may need several kinds at a time."""

    SCHEDULING = auto()
    IMAGES = auto()  # has kernels whose image is not known to be ready
    CREATION = auto()  # has prepared kernels
    CONFIRMATION = auto()  # has kernels whose creation was requested, and is not reported yet
    TERMINATION = auto()
    KERNEL_END = auto()  # runs, and has kernels that end alone
    TIME_LIMIT = auto()  # runs, with a time limit or an idle timeout
    SUPERVISION = auto()  # runs: its scaling group may limit how long


# The needs of a session that runs, and of which nothing is to be done just now.
_AT_REST = frozenset({Need.TIME_LIMIT, Need.SUPERVISION})


def _has_limit(spec: SessionSpec) -> bool:
    return spec.time_limit_s is not None or spec.idle_timeout_s is not None


def needs_of(session: SessionRecord) -> frozenset[Need]:
    """The work that a session needs, by its status and its kernels'."""
    if session.status is SessionStatus.PENDING:
        return frozenset({Need.SCHEDULING})
    if session.goal is not Goal.RUN or session.status in {SessionStatus.TERMINATING, *SESSION.terminal}:
        return frozenset({Need.TERMINATION})
    statuses = {kernel.status for kernel in session.kernels}
    needed = {
        Need.SCHEDULING: KernelStatus.PENDING in statuses,
        Need.IMAGES: bool(statuses & UNPREPARED),
        Need.CREATION: KernelStatus.PREPARED in statuses,
        Need.CONFIRMATION: KernelStatus.CREATING in statuses,
        Need.SUPERVISION: session.status is SessionStatus.RUNNING,
        Need.KERNEL_END: KernelStatus.TERMINATING in statuses,
        Need.TIME_LIMIT: session.status is SessionStatus.RUNNING and _has_limit(session.spec),
    }
    return frozenset(need for need, is_needed in needed.items() if is_needed)


def is_settled(session: SessionRecord) -> bool:
    """Whether a session has ended and holds no slots, so that it never changes again."""
    return session.status in SESSION.terminal and not any(one.status in HOLDS_SLOTS for one in session.kernels)


def _only_waits(session: SessionRecord) -> bool:
    if session.status is not SessionStatus.PENDING or session.goal is not Goal.RUN:
        return False
    return all(kernel.status is KernelStatus.PENDING for kernel in session.kernels)


class BulkSessions:
    """The `large` sessions, and all of users with many kernels of small ones to move.

    They are `hidden` while the others are served.
    """

    def __init__(self) -> None:
        self.hidden = False
        self.large: set[SessionId] = set()
        # Kernels of small sessions that need something done now, by user, and the user of each such session.
        self._moving: Counter[str] = Counter()
        self._users: dict[SessionId, str] = {}
        self._busy: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self.large or self._busy)

    def hides(self, session_id: SessionId) -> bool:
        """Whether a session is of the bulk, and that is hidden."""
        return self.hidden and (session_id in self.large or self._users.get(session_id) in self._busy)

    @property
    def others_move(self) -> bool:
        """Whether a session that is not of the bulk needs something done now."""
        return len(self._moving) > len(self._busy)

    def add(self, session: SessionRecord, needs: frozenset[Need]) -> None:
        """Count a session."""
        if len(session.kernels) > LARGE:
            self.large.add(session.session_id)
        elif not needs <= _AT_REST:
            self._users[session.session_id] = session.spec.owner.user
            self._count(session, len(session.kernels))

    def remove(self, session: SessionRecord) -> None:
        """Remove a session, as it was added."""
        self.large.discard(session.session_id)
        if self._users.pop(session.session_id, None) is not None:
            self._count(session, -len(session.kernels))

    def clear(self) -> None:
        """Remove all sessions."""
        for known in (self.large, self._moving, self._users, self._busy):
            known.clear()

    def _count(self, session: SessionRecord, kernels: int) -> None:
        user = session.spec.owner.user
        self._moving[user] += kernels
        if self._moving[user] > LARGE:
            self._busy.add(user)
        else:
            self._busy.discard(user)
        if not self._moving[user]:
            del self._moving[user]


class SessionCache:
    """Caches live sessions; `changed` is called for each session that changed.

    `now_ms` is the store's time of the last refresh; `stale` are sessions to reread, `begun`
    those of which not all kernels wait, and `statuses` how many have which. `bulk`
    sessions seem to need nothing while they are hidden; `unfinished` are those of which a
    handler left kernels for the next cycle.
    """

    def __init__(self, changed: SessionChanged) -> None:
        self.now_ms = 0
        self.bulk = BulkSessions()
        self.unfinished: dict[SessionId, None] = {}
        self._changed = changed
        self._sessions: dict[SessionId, SessionRecord] = {}
        # Without those of which all kernels wait, which may be very many.
        self.begun: dict[SessionId, SessionRecord] = {}
        self.statuses: Counter[SessionStatus] = Counter()
        self._needs: dict[SessionId, frozenset[Need]] = {}
        # Dictionaries and not sets, for a deterministic order of iteration.
        self._by_need: dict[Need, dict[SessionId, None]] = {need: {} for need in Need}
        self._held: dict[KernelId, KernelRecord] = {}
        self._on_agent: dict[AgentId, dict[KernelId, None]] = {}
        self.stale: dict[SessionId, None] = {}
        self._changed_ids: dict[SessionId, None] = {}
        # Recently settled sessions: the last write of one must not add it again.
        self._settled: OrderedDict[SessionId, int] = OrderedDict()

    def put(self, record: SessionRecord) -> None:
        """Add or update a session; an older version than the cached one is ignored."""
        known = self._sessions.get(record.session_id)
        if (known is not None and record.version < known.version) or record.session_id in self._settled:
            return
        if known is not None:
            self._remove(known)
        settled = is_settled(record)
        if settled:
            self._settle(record)
        else:
            self._add(record)
        self._index_kernels(() if known is None else known.kernels, () if settled else record.kernels)
        if known != record:
            self._changed_ids[record.session_id] = None
            self._changed(known, record)

    def mark_stale(self, session_ids: Iterable[SessionId]) -> None:
        """Mark sessions that the next refresh must reread."""
        self.stale.update(dict.fromkeys(session_ids))

    def clear(self) -> None:
        """Remove everything."""
        self._sessions.clear()
        self.begun.clear()
        self.statuses.clear()
        self.bulk.clear()
        self.unfinished.clear()
        self._needs.clear()
        self._held.clear()
        self._on_agent.clear()
        self.stale.clear()
        self._changed_ids.clear()
        self._settled.clear()
        for ids in self._by_need.values():
            ids.clear()

    def take_changed(self) -> list[SessionId]:
        """The sessions that changed since the last call."""
        changed, self._changed_ids = list(self._changed_ids), {}
        return changed

    def get(self, session_id: SessionId) -> SessionRecord | None:
        """A live session; None if it is not cached."""
        return self._sessions.get(session_id)

    def needing(self, need: Need) -> list[SessionRecord]:
        """The sessions that need this work, in the order they were cached."""
        return [self._sessions[one] for one in self._by_need[need] if not self.bulk.hides(one)]

    def count(self, need: Need) -> int:
        """The number of sessions that need this work."""
        found = self._by_need[need]
        return sum(not self.bulk.hides(one) for one in found) if self.bulk.hidden else len(found)

    def needs(self, session_id: SessionId, need: Need) -> bool:
        """Whether a session needs this work."""
        return session_id in self._by_need[need]

    def all(self) -> Iterator[SessionRecord]:
        """Every live session."""
        return iter(list(self._sessions.values()))

    def kernel(self, kernel_id: KernelId) -> KernelRecord | None:
        """A kernel that holds slots."""
        return self._held.get(kernel_id)

    def kernels_on(self, agent_id: AgentId) -> list[KernelRecord]:
        """The kernels that hold slots on an agent."""
        return [self._held[one] for one in self._on_agent.get(agent_id, ())]

    def knows(self, session_id: SessionId, version: int) -> bool:
        """Whether the cache has this version or a newer one."""
        known = self._sessions.get(session_id)
        return session_id in self._settled or (known is not None and known.version >= version)

    def _settle(self, record: SessionRecord) -> None:
        self._settled[record.session_id] = record.version
        while len(self._settled) > SETTLED_MAX:
            self._settled.popitem(last=False)

    def _add(self, record: SessionRecord) -> None:
        session_id = record.session_id
        self._sessions[session_id] = record
        self.statuses[record.status] += 1
        if not _only_waits(record):
            self.begun[session_id] = record
        self._needs[session_id] = needs_of(record)
        self.bulk.add(record, self._needs[session_id])
        for need in self._needs[session_id]:
            self._by_need[need][session_id] = None

    def _remove(self, record: SessionRecord) -> None:
        del self._sessions[record.session_id]
        self.begun.pop(record.session_id, None)
        self.statuses[record.status] -= 1
        self.bulk.remove(record)
        for need in self._needs.pop(record.session_id):
            self._by_need[need].pop(record.session_id, None)

    def _index_kernels(self, before: Sequence[KernelRecord], after: Sequence[KernelRecord]) -> None:
        """Replace the kernels of a session in the indexes; the same objects are there already.

        A write of a large session changes few of its kernels.
        """
        if len(before) == len(after):
            changed = [pair for pair in zip(before, after, strict=True) if pair[0] is not pair[1]]
            before, after = [old for old, _ in changed], [new for _, new in changed]
        for kernel in before:
            if self._held.pop(kernel.kernel_id, None) is not None and kernel.agent_id is not None:
                self._on_agent[kernel.agent_id].pop(kernel.kernel_id, None)
        for kernel in after:
            if kernel.status in HOLDS_SLOTS and kernel.agent_id is not None:
                self._held[kernel.kernel_id] = kernel
                self._on_agent.setdefault(kernel.agent_id, {})[kernel.kernel_id] = None


class SessionCacheReader:
    """Loads the cache, then reads changes by change marks, never by events.

    If many sessions are new, or wait when a term begins, users take turns, and `unread` are left
    for the next refresh.
    """

    def __init__(self, cache: SessionCache, store: Store) -> None:
        self._cache, self._store = cache, store
        self._mark: int | None = None
        self.unread = UnreadSessions()

    async def load(self) -> None:
        """Load the sessions that have begun, page by page.

        `refresh` then reads concurrent writes, and those that wait, a part at a time: what runs is
        attended to before all of them are read.
        """
        self._cache.clear()
        self.unread.clear()
        self._mark, _ = await self._store.read(lambda unit: unit.sessions.changed(None))
        after: int | None = None
        while True:
            page = await self._store.read(_page_after(after))
            for record in page:
                self._cache.put(record)
            if len(page) < PAGE:
                break
            after = page[-1].place
        for record in await self._store.read(_ended_holding):
            self._cache.put(record)
        self.unread.add(await self._store.read(lambda unit: unit.sessions.waiting_users()))

    async def refresh(self) -> None:
        """Read the sessions that others have written, and the stale ones."""
        cache = self._cache

        async def work(unit: UnitOfWork) -> tuple[int, int, list[SessionId], list[SessionRecord]]:
            mark, versions = await unit.sessions.changed(self._mark)
            changed = [one for one, version in versions.items() if not cache.knows(one, version)]
            new = [one for one in changed if cache.get(one) is None]
            known = [one for one in changed if cache.get(one) is not None]
            ids = list(dict.fromkeys((*known, *await self._next_new(unit, new), *cache.stale)))
            return unit.now_ms, mark, ids, await _records(unit, ids)

        cache.now_ms, self._mark, ids, records = await self._store.read(work)
        self.unread.remove(ids)
        cache.stale.clear()
        for record in records:
            cache.put(record)

    async def _next_new(self, unit: UnitOfWork, new: Sequence[SessionId]) -> Sequence[SessionId]:
        """The new sessions to read now; the others are unread."""
        if not self.unread and len(new) <= READ_AT_ONCE:
            return new
        if new:
            self.unread.add(await unit.sessions.users_of(new))
        # Each part costs a refresh: parts of very many are larger, so that they are not too many.
        return self.unread.next_part(max(READ_AT_ONCE, len(self.unread) // SLICES_MAX))


def _page_after(after: int | None) -> Callable[[UnitOfWork], Awaitable[Sequence[SessionRecord]]]:
    async def work(unit: UnitOfWork) -> Sequence[SessionRecord]:
        return await unit.sessions.page(SessionFilter(statuses=_BEGUN), limit=PAGE, after=after)

    return work


async def _ended_holding(unit: UnitOfWork) -> list[SessionRecord]:
    """Sessions that were ended by force, and whose kernels still hold slots."""
    return await _records(unit, await unit.sessions.ended_holding())


async def _records(unit: UnitOfWork, ids: Sequence[SessionId]) -> list[SessionRecord]:
    found: list[SessionRecord] = []
    for start in range(0, len(ids), PAGE):
        found += await unit.sessions.page(SessionFilter(ids=ids[start : start + PAGE]), limit=PAGE)
    return found
