"""What every owner uses as the cycle goes on.

Each placement is seen by the next check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sokovan.domain.policy import ResourcePolicy, Scope
from sokovan.domain.slots import NO_SLOTS, ResourceSlot, total
from sokovan.domain.tenancy import Owner
from sokovan.scheduling.snapshot import OwnerUsage, SessionWorkload, SystemSnapshot

Accounts = tuple["Account", "Account", "Account", "Account"]


class Account:
    """One owner's usage, and the limits that are set on it."""

    __slots__ = ("limits", "name", "policy", "scope", "sessions", "tracked", "used")

    def __init__(self, scope: Scope, name: str, usage: OwnerUsage, policy: ResourcePolicy | None) -> None:
        self.scope, self.name, self.policy = scope, name, policy
        self.used = dict(usage.slots)
        self.sessions = usage.sessions
        self.limits = dict(policy.slots_max) if policy is not None else {}
        self.tracked: tuple[str, ...] | None = None  # the slots whose usage is kept up to date; None for all

    def excess(self, asked: ResourceSlot) -> list[tuple[str, int, int, int]]:
        """The slots whose limit would be passed: slot, asked, used, limit."""
        used, found = self.used, []
        for slot, limit in self.limits.items():
            amount = asked[slot]
            if amount and used.get(slot, 0) + amount > limit:
                found.append((slot, amount, used.get(slot, 0), limit))
        return found


class Entry:
    """What is known of one owner: its accounts, and the rules that concern it."""

    __slots__ = ("accounts", "bounds", "meters", "plain", "rules", "watched")

    def __init__(self, accounts: Accounts, watched: tuple[Account, ...]) -> None:
        self.accounts, self.watched = accounts, watched
        self.rules: tuple[Any, ...] | None = None
        # The same laid flat, for the two questions that are asked of every session.
        self.bounds = tuple((a.used, slot, limit) for a in accounts for slot, limit in a.limits.items())
        self.meters = tuple((a.used, slot) for a in watched for slot in a.tracked or ())
        self.plain = False  # whether its rules are no others than limits on slots and sessions

    def charge(self, parts: Sequence[tuple[ResourceSlot, int]], *, sessions: int = 0) -> None:
        """Count what the owner uses from now on: slots, and how many times."""
        for slots, times in parts:
            for used, slot in self.meters:
                amount = slots[slot]
                if amount:
                    used[slot] = used.get(slot, 0) + amount * times
        for account in self.watched:
            if account.tracked is None:
                used = account.used
                for slots, times in parts:
                    for slot, amount in slots.items():
                        used[slot] = used.get(slot, 0) + amount * times
            account.sessions += sessions


class OwnerLedger:
    """The accounts of all owners, in the four scopes a session counts against.

    Accounts that nobody looks at are not kept up to date: with `watch_all` off only
    those with limits are, with `watch_users` those of users as well.
    """

    def __init__(self, snapshot: SystemSnapshot, *, watch_all: bool = True, watch_users: bool = True) -> None:
        self._snapshot = snapshot
        self._watch_all, self._watch_users = watch_all, watch_users
        self._accounts: dict[tuple[Scope, str], Account] = {}
        self._entries: dict[Owner, Entry] = {}
        self._last_owner: Owner | None = None
        self._last: Entry | None = None

    def entry(self, owner: Owner) -> Entry:
        """The page of one owner."""
        # One session is asked about several times in a row, and comparing owners costs more than all the rest.
        if owner is self._last_owner and self._last is not None:
            return self._last
        found = self._entries.get(owner)
        if found is None:
            accounts = (
                self.account(Scope.KEYPAIR, owner.access_key),
                self.account(Scope.USER, owner.user),
                self.account(Scope.GROUP, owner.group),
                self.account(Scope.DOMAIN, owner.domain),
            )
            watched = tuple(filter(self._is_watched, accounts))
            for account in watched:
                if not self._watch_all and not (self._watch_users and account.scope is Scope.USER):
                    account.tracked = tuple(account.limits)
            found = self._entries[owner] = Entry(accounts, watched)
        self._last_owner, self._last = owner, found
        return found

    def accounts(self, owner: Owner) -> Accounts:
        """The keypair's, user's, group's and domain's account."""
        return self.entry(owner).accounts

    def account(self, scope: Scope, name: str) -> Account:
        """One account; an owner that is not listed uses nothing and has no limits."""
        key = (scope, name)
        if key not in self._accounts:
            usage = self._snapshot.usage.get(scope, {}).get(name, OwnerUsage())
            policy = self._snapshot.limits.get(scope, {}).get(name)
            self._accounts[key] = Account(scope, name, usage, policy)
        return self._accounts[key]

    def _is_watched(self, account: Account) -> bool:
        by_user = self._watch_users and account.scope is Scope.USER
        return self._watch_all or by_user or account.policy is not None


class PendingLine:
    """The waiting sessions of one keypair in the order in which they came."""

    def __init__(self, sessions: Iterable[SessionWorkload], elsewhere: OwnerUsage) -> None:
        self._sessions = sorted(sessions, key=lambda session: (session.submitted, session.session_id))
        self._place = {session.session_id: index for index, session in enumerate(self._sessions)}
        self._waits = np.ones(len(self._sessions), np.int64)
        self._asked = [_asked(session) for session in self._sessions]
        self._elsewhere = elsewhere

    @property
    def longest(self) -> int:
        """How many sessions wait when the cycle begins; it never becomes more."""
        return len(self._sessions) + self._elsewhere.sessions

    @cached_property
    def largest(self) -> ResourceSlot:
        """What they ask for together when the cycle begins."""
        parts = [slots * times for slots, times in Counter(self._asked).items()]
        return total([*parts, self._elsewhere.slots])

    def count_ahead(self, session: SessionWorkload) -> int:
        """How many earlier sessions still wait."""
        return int(self._waits[: self._place_of(session)].sum()) + self._elsewhere.sessions

    def slots_ahead(self, session: SessionWorkload) -> ResourceSlot:
        """What the earlier sessions that still wait ask for together."""
        place = self._place_of(session)
        amounts = (self._waits[:place] @ self._table[:place]).tolist()
        return ResourceSlot(dict(zip(self._names, amounts, strict=True))) + self._elsewhere.slots

    def leave(self, session: SessionWorkload) -> None:
        """A session waits no longer."""
        place = self._place.get(session.session_id)
        if place is not None:
            self._waits[place] = 0

    def _place_of(self, session: SessionWorkload) -> int:
        return self._place.get(session.session_id, len(self._sessions))

    @cached_property
    def _names(self) -> list[str]:
        return sorted({slot for slots in set(self._asked) for slot in slots})

    @cached_property
    def _table(self) -> NDArray[np.int64]:
        rows = [[slots[name] for name in self._names] for slots in self._asked]
        return np.array(rows, np.int64).reshape(len(rows), len(self._names))


def _asked(session: SessionWorkload) -> ResourceSlot:
    if len(session.kernels) == 1:
        return session.kernels[0].slots
    return total(kernel.slots for kernel in session.kernels if kernel.agent is None)


class PendingLines:
    """The lines of all keypairs; made only for those whose limits ask for one."""

    def __init__(self, snapshot: SystemSnapshot) -> None:
        self._snapshot = snapshot
        self._sessions: dict[str, list[SessionWorkload]] | None = None
        self._lines: dict[str, PendingLine] = {}
        self._left: dict[str, list[SessionWorkload]] = {}

    def of(self, access_key: str) -> PendingLine:
        """The line of one keypair."""
        if access_key not in self._lines:
            elsewhere = self._snapshot.pending_elsewhere.get(access_key, OwnerUsage(NO_SLOTS, 0))
            line = self._lines[access_key] = PendingLine(self._waiting().get(access_key, ()), elsewhere)
            for session in self._left.get(access_key, ()):
                line.leave(session)
        return self._lines[access_key]

    def leave(self, session: SessionWorkload) -> None:
        """A session waits no longer."""
        line = self._lines.get(session.owner.access_key)
        if line is not None:
            line.leave(session)
        else:
            self._left.setdefault(session.owner.access_key, []).append(session)

    def _waiting(self) -> dict[str, list[SessionWorkload]]:
        if self._sessions is None:
            self._sessions = {}
            for session in self._snapshot.sessions:
                if all(kernel.agent is None or kernel.releasing for kernel in session.kernels):
                    self._sessions.setdefault(session.owner.access_key, []).append(session)
        return self._sessions
