"""Every session that has not settled, in memory, kept up to date by what changed.

The store is the truth; this is a copy that says at once which sessions need which
work. A decision made on an old copy loses against the version that the store has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum, auto

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS, KernelStatus
from sokovan.domain.lifecycle.session import SESSION, Goal, SessionStatus
from sokovan.domain.records import SessionRecord

SETTLED_MAX = 10_000
_UNPREPARED = frozenset({KernelStatus.SCHEDULED, KernelStatus.PREPARING, KernelStatus.PULLING})


class Need(StrEnum):
    """The work that a session needs. It may need several kinds at a time."""

    A_PLACE = auto()
    IMAGES = auto()  # it has kernels whose image is not known to be ready
    A_START = auto()  # it has kernels that can be asked for
    NEWS = auto()  # it has kernels that were asked for, and have not begun
    AN_END = auto()
    A_LIMIT = auto()  # it runs, and may run for so long only


def needs_of(session: SessionRecord) -> frozenset[Need]:
    """What work a session needs, by its status and its kernels'."""
    if session.status is SessionStatus.PENDING:
        return frozenset({Need.A_PLACE})
    if session.goal is not Goal.RUN or session.status in {SessionStatus.TERMINATING, *SESSION.terminal}:
        return frozenset({Need.AN_END})
    statuses = {kernel.status for kernel in session.kernels}
    asked = {
        Need.A_PLACE: KernelStatus.PENDING in statuses,
        Need.IMAGES: bool(statuses & _UNPREPARED),
        Need.A_START: KernelStatus.PREPARED in statuses,
        Need.NEWS: KernelStatus.CREATING in statuses,
        Need.A_LIMIT: session.status is SessionStatus.RUNNING and session.spec.time_limit_s is not None,
    }
    return frozenset(need for need, there in asked.items() if there)


def settled(session: SessionRecord) -> bool:
    """Whether nothing will ever happen to it again: it ended and holds nothing."""
    return session.status in SESSION.terminal and not any(one.status in HOLDS_SLOTS for one in session.kernels)


class SessionCache:
    """The copy. `moved` hears of each session that changed, as it was and as it is.

    `now_ms` is the store's time when the copy was last brought up to date; `doubtful`
    are sessions that may be others than we believe.
    """

    def __init__(self, moved: Callable[[SessionRecord | None, SessionRecord], None]) -> None:
        self.now_ms = 0
        self._moved = moved
        self._sessions: dict[SessionId, SessionRecord] = {}
        self._needs: dict[SessionId, frozenset[Need]] = {}
        # Dictionaries and not sets: whoever walks them does so in one order on every machine.
        self._needing: dict[Need, dict[SessionId, None]] = {need: {} for need in Need}
        self._session_of: dict[KernelId, SessionId] = {}
        self._on_agent: dict[AgentId, dict[KernelId, None]] = {}
        self.doubtful: dict[SessionId, None] = {}
        self._touched: dict[SessionId, None] = {}
        # The last versions of sessions that have settled: our own last write of one is no news.
        self._settled: OrderedDict[SessionId, int] = OrderedDict()

    def put(self, record: SessionRecord) -> None:
        """Take in a session as it is now; an older state than is known changes nothing."""
        known = self._sessions.get(record.session_id)
        if (known is not None and record.version < known.version) or record.session_id in self._settled:
            return
        if known is not None:
            self._remove(known)
        if settled(record):
            self._settle(record)
        else:
            self._add(record)
        if known != record:
            self._touched[record.session_id] = None
            self._moved(known, record)

    def doubt(self, session_ids: Iterable[SessionId]) -> None:
        """These may be others than we believe: read them again."""
        self.doubtful.update(dict.fromkeys(session_ids))

    def clear(self) -> None:
        """Know nothing."""
        self._sessions.clear()
        self._needs.clear()
        self._session_of.clear()
        self._on_agent.clear()
        self.doubtful.clear()
        self._touched.clear()
        self._settled.clear()
        for needing in self._needing.values():
            needing.clear()

    def take_touched(self) -> list[SessionId]:
        """The sessions that changed since the last call."""
        touched, self._touched = list(self._touched), {}
        return touched

    def get(self, session_id: SessionId) -> SessionRecord | None:
        """A session, if it is live."""
        return self._sessions.get(session_id)

    def needing(self, need: Need) -> list[SessionRecord]:
        """The sessions that need this work, the longest known first."""
        return [self._sessions[one] for one in self._needing[need]]

    def count(self, need: Need) -> int:
        """How many sessions need this work."""
        return len(self._needing[need])

    def all(self) -> Iterator[SessionRecord]:
        """Every live session."""
        return iter(list(self._sessions.values()))

    def session_of(self, kernel_id: KernelId) -> SessionId | None:
        """Whose kernel this is, if it holds something."""
        return self._session_of.get(kernel_id)

    def kernels_on(self, agent_id: AgentId) -> list[KernelId]:
        """The kernels that hold something on an agent."""
        return list(self._on_agent.get(agent_id, ()))

    def sessions_on(self, agent_id: AgentId) -> list[SessionId]:
        """The sessions that hold something on an agent."""
        return list(dict.fromkeys(self._session_of[kernel] for kernel in self._on_agent.get(agent_id, ())))

    def knows(self, session_id: SessionId, version: int) -> bool:
        """Whether nothing newer can be learnt from this version."""
        known = self._sessions.get(session_id)
        return session_id in self._settled or (known is not None and known.version >= version)

    def _settle(self, record: SessionRecord) -> None:
        self._settled[record.session_id] = record.version
        while len(self._settled) > SETTLED_MAX:
            self._settled.popitem(last=False)

    def _add(self, record: SessionRecord) -> None:
        session_id = record.session_id
        self._sessions[session_id] = record
        self._needs[session_id] = needs_of(record)
        for need in self._needs[session_id]:
            self._needing[need][session_id] = None
        for kernel in record.kernels:
            if kernel.status in HOLDS_SLOTS and kernel.agent_id is not None:
                self._session_of[kernel.kernel_id] = session_id
                self._on_agent.setdefault(kernel.agent_id, {})[kernel.kernel_id] = None

    def _remove(self, record: SessionRecord) -> None:
        del self._sessions[record.session_id]
        for need in self._needs.pop(record.session_id):
            self._needing[need].pop(record.session_id, None)
        for kernel in record.kernels:
            if self._session_of.pop(kernel.kernel_id, None) is not None and kernel.agent_id is not None:
                self._on_agent[kernel.agent_id].pop(kernel.kernel_id, None)
