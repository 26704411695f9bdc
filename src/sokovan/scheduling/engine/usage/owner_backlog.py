"""OwnerBacklogs: the waiting sessions of every owner, in scheduling order.

Takes the waiting sessions of a snapshot, those of other scaling groups included, and
the sessions that start during the cycle. Gives, per scope and owner, how many sessions
wait ahead of a given one and what they request. The order is that of scheduling:
priority, then age. All scaling groups use the same order, so that two sessions never
refuse each other. A session that could not start does not count: it would keep others
from starting for as long as it is held, or for ever.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sokovan.domain.ids import SessionId
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.slots import NO_SLOTS, ResourceSlot, total
from sokovan.scheduling.snapshot import SessionWorkload, SystemSnapshot

Columns = NDArray[np.int64]


class PrefixSums:
    """Sums of the first rows of a table whose rows may be removed (a Fenwick tree).

    A query and a removal cost the logarithm of the number of rows: an owner may have
    as many waiting sessions as the system.
    """

    def __init__(self, rows: Columns) -> None:
        self._rows = rows
        sums = np.vstack((np.zeros((1, rows.shape[1]), np.int64), rows.cumsum(axis=0)))
        ends = np.arange(len(rows) + 1)
        self._tree = sums - sums[ends - (ends & -ends)]

    def first(self, count: int) -> list[int]:
        """The sum of each column over the first `count` rows."""
        found = np.zeros(self._rows.shape[1], np.int64)
        while count > 0:
            found += self._tree[count]
            count -= count & -count
        return [int(amount) for amount in found]

    def remove(self, row: int) -> None:
        """Count a row no longer; once per row."""
        end = row + 1
        while end < len(self._tree):
            self._tree[end] -= self._rows[row]
            end += end & -end


class OwnerBacklog:
    """The waiting sessions of one owner: priority first, then age."""

    def __init__(self, sessions: Iterable[SessionWorkload], gone: Container[SessionId]) -> None:
        self._sessions = sorted(sessions, key=_scheduling_order)
        self._position = {session.session_id: index for index, session in enumerate(self._sessions)}
        self._gone = {index for index, session in enumerate(self._sessions) if session.session_id in gone}

    def count_ahead(self, session: SessionWorkload) -> int:
        """How many sessions ahead of this one still wait."""
        return self._counts.first(self._position_of(session))[0]

    def slots_ahead(self, session: SessionWorkload) -> ResourceSlot:
        """The sum of the requests of the sessions ahead that still wait."""
        amounts = self._slots.first(self._position_of(session))
        return ResourceSlot(dict(zip(self._names, amounts, strict=True)))

    def remove(self, session_id: SessionId) -> None:
        """Stop counting a session as waiting."""
        position = self._position.get(session_id)
        if position is None or position in self._gone:
            return
        self._gone.add(position)
        for name in ("_counts", "_slots"):
            if name in vars(self):  # sums that were not requested yet leave it out when they are built
                vars(self)[name].remove(position)

    def _position_of(self, session: SessionWorkload) -> int:
        return self._position.get(session.session_id, len(self._sessions))

    @cached_property
    def _counts(self) -> PrefixSums:
        return self._sums(np.ones((len(self._sessions), 1), np.int64))

    @cached_property
    def _slots(self) -> PrefixSums:
        rows = [[slots[name] for name in self._names] for slots in self._requests]
        return self._sums(np.array(rows, np.int64).reshape(len(rows), len(self._names)))

    @cached_property
    def _names(self) -> list[str]:
        return sorted({slot for slots in set(self._requests) for slot in slots})

    @cached_property
    def _requests(self) -> list[ResourceSlot]:
        return [_request(session) for session in self._sessions]

    def _sums(self, rows: Columns) -> PrefixSums:
        rows[sorted(self._gone)] = 0
        return PrefixSums(rows)


class OwnerBacklogs:
    """The backlogs of all owners in the four scopes.

    Most owners stay below their limits, so totals are cheap, and a backlog is put in
    order only when a limit is exceeded.
    """

    def __init__(self, snapshot: SystemSnapshot) -> None:
        self._snapshot = snapshot
        self._sessions: dict[Scope, dict[str, list[SessionWorkload]]] = {}
        self._backlogs: dict[Scope, dict[str, OwnerBacklog]] = {}
        self._slots_at_start: dict[Scope, dict[str, ResourceSlot]] = {}
        self._removed: set[SessionId] = set()

    def count_at_start(self, scope: Scope, name: str) -> int:
        """How many sessions wait at the start of the cycle; the number only falls.

        Includes held sessions: a session beyond a limit by itself is refused although held.
        """
        return len(self._waiting(scope, name))

    def slots_at_start(self, scope: Scope, name: str) -> ResourceSlot:
        """The sum of their requests at the start of the cycle."""
        if scope not in self._slots_at_start:
            found: dict[str, list[ResourceSlot]] = {}
            for owner, slots in self._slots_by_owner.items():
                found.setdefault(owner.name_in(scope), []).append(slots)
            self._slots_at_start[scope] = {each: total(slots) for each, slots in found.items()}
        return self._slots_at_start[scope].get(name, NO_SLOTS)

    def of(self, scope: Scope, name: str) -> OwnerBacklog:
        """The backlog of one owner."""
        backlogs = self._backlogs.setdefault(scope, {})
        if name not in backlogs:
            waiting = self._waiting(scope, name)
            gone = {one.session_id for one in waiting if one.session_id in self._removed or self._is_held(one)}
            backlogs[name] = OwnerBacklog(waiting, gone)
        return backlogs[name]

    def remove(self, session: SessionWorkload) -> None:
        """Stop counting a session as waiting."""
        self._removed.add(session.session_id)
        for scope, backlogs in self._backlogs.items():
            backlog = backlogs.get(session.owner.name_in(scope))
            if backlog is not None:
                backlog.remove(session.session_id)

    def _waiting(self, scope: Scope, name: str) -> Sequence[SessionWorkload]:
        if scope not in self._sessions:
            found: dict[str, list[SessionWorkload]] = {}
            for owner, sessions in self._by_owner.items():
                found.setdefault(owner.name_in(scope), []).extend(sessions)
            self._sessions[scope] = found
        return self._sessions[scope].get(name, ())

    @cached_property
    def _by_owner(self) -> dict[Owner, list[SessionWorkload]]:
        # By the owner's names: comparing owners themselves takes several times as long.
        found: dict[tuple[str, ...], tuple[Owner, list[SessionWorkload]]] = {}
        for session in (*self._snapshot.sessions, *self._snapshot.pending_elsewhere):
            if session.waits and session.session_type.is_charged:
                owner = session.owner
                names = (owner.access_key, owner.user, owner.group, owner.domain)
                if names not in found:
                    found[names] = (owner, [])
                found[names][1].append(session)
        return dict(found.values())

    def _is_held(self, session: SessionWorkload) -> bool:
        """Whether a gate, its start time or a dependency holds the session."""
        starts_at_ms, outcomes = session.starts_at_ms, self._snapshot.outcomes
        if session.gates or (starts_at_ms is not None and starts_at_ms > self._snapshot.now_ms):
            return True
        return not all(outcomes.get(name) for name in session.dependencies)

    @cached_property
    def _slots_by_owner(self) -> dict[Owner, ResourceSlot]:
        return {owner: total(map(_request, sessions)) for owner, sessions in self._by_owner.items()}


def _scheduling_order(session: SessionWorkload) -> tuple[int, int, SessionId]:
    return (-session.priority, session.submitted, session.session_id)


def _request(session: SessionWorkload) -> ResourceSlot:
    if len(session.kernels) == 1:
        return session.kernels[0].slots
    return total(kernel.slots for kernel in session.kernels if kernel.agent is None)
