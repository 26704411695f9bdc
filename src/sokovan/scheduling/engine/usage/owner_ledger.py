"""OwnerLedger: the usage of every owner during a cycle.

Takes the usage and limits of a snapshot, then the charges of each placement. Gives
accounts per scope for the validators. Every charge is visible to the next check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.slots import NO_SLOTS, ResourceSlot, total
from sokovan.scheduling.snapshot import OwnerUsage, SystemSnapshot

T = TypeVar("T")
Accounts = tuple["OwnerAccount", "OwnerAccount", "OwnerAccount", "OwnerAccount"]


class OwnerAccount:
    """The usage of one owner in one scope, and its limits."""

    __slots__ = ("limits", "name", "policy", "scope", "sessions", "sessions_max", "tracked", "used")

    def __init__(self, scope: Scope, name: str, usage: OwnerUsage, policy: ResourcePolicy | None) -> None:
        self.scope, self.name, self.policy = scope, name, policy
        self.used = dict(usage.slots)
        self.sessions = usage.sessions
        self.sessions_max = policy.sessions_max if policy is not None else None
        self.limits = dict(policy.slots_max) if policy is not None else {}
        self.tracked: tuple[str, ...] | None = None  # the slots whose usage is updated; None for all

    def excess(self, request: ResourceSlot) -> list[tuple[str, int, int, int]]:
        """The slots whose limit would be exceeded: slot, requested, used, limit."""
        used, found = self.used, []
        for slot, limit in self.limits.items():
            amount = request[slot]
            if amount and used.get(slot, 0) + amount > limit:
                found.append((slot, amount, used.get(slot, 0), limit))
        return found


class LedgerEntry:
    """The accounts of one session owner, and the validators that apply to it."""

    __slots__ = ("_untracked", "accounts", "bounds", "meters", "plain", "rules", "session_bounds", "watched")

    def __init__(self, accounts: Accounts, watched: tuple[OwnerAccount, ...]) -> None:
        self.accounts, self.watched = accounts, watched
        self.rules: tuple[Any, ...] | None = None
        # By slot, for the loops that run for every session: a session asks for few slots, all accounts may limit many.
        self.bounds = _by_slot((slot, (a.used, limit)) for a in accounts for slot, limit in a.limits.items())
        self.session_bounds = tuple((a, a.sessions_max) for a in accounts if a.sessions_max is not None)
        # The amounts that are updated, by slot; for slots that are not listed, `_untracked`.
        self._untracked = tuple(a.used for a in watched if a.tracked is None)
        tracked = _by_slot((slot, a.used) for a in watched for slot in a.tracked or ())
        self.meters = {slot: (*used, *self._untracked) for slot, used in tracked.items()}
        self.plain = False  # whether its rules are only limits on slots and sessions

    def charge(self, parts: Sequence[tuple[ResourceSlot, int]], *, sessions: int = 0) -> None:
        """Add to the owner's usage: slots, and how many times each."""
        meters, untracked = self.meters, self._untracked
        for slots, times in parts:
            for slot, amount in slots.items():
                for used in meters.get(slot, untracked):
                    used[slot] = used.get(slot, 0) + amount * times
        for account in self.watched:
            account.sessions += sessions


class OwnerLedger:
    """The accounts of all owners in the four scopes (keypair, user, group, domain).

    They count the whole system, which limits refer to; `account_here` counts a user in
    this scaling group only. Accounts that no rule reads are not updated: without
    `watch_all` only those with limits are, without `watch_users` none of `account_here`.
    """

    def __init__(self, snapshot: SystemSnapshot, *, watch_all: bool = True, watch_users: bool = True) -> None:
        self._snapshot = snapshot
        self._watch_all, self._watch_users = watch_all, watch_users
        self._accounts: dict[tuple[Scope, str], OwnerAccount] = {}
        self._here: dict[str, OwnerAccount] = {}
        self._entries: dict[tuple[str, ...], LedgerEntry] = {}
        self._last_owner: Owner | None = None
        self._last: LedgerEntry | None = None

    def entry(self, owner: Owner) -> LedgerEntry:
        """The entry of one owner."""
        # The same session is looked up several times in a row.
        if owner is self._last_owner and self._last is not None:
            return self._last
        # By the owner's names: comparing owners themselves takes several times as long.
        names = (owner.access_key, owner.user, owner.group, owner.domain)
        found = self._entries.get(names)
        if found is None:
            keypair, user, group, domain = (self.account(scope, name) for scope, name in owner.scopes)
            accounts = (keypair, user, group, domain)
            watched = tuple(filter(self._is_watched, accounts))
            for account in watched:
                if not self._watch_all:
                    account.tracked = tuple(account.limits)
            if self._watch_users:
                watched = (*watched, self.account_here(owner.user))
            found = self._entries[names] = LedgerEntry(accounts, watched)
        self._last_owner, self._last = owner, found
        return found

    def accounts(self, owner: Owner) -> Accounts:
        """The accounts of the keypair, user, group and domain."""
        return self.entry(owner).accounts

    def account(self, scope: Scope, name: str) -> OwnerAccount:
        """One account; an owner that is not in the snapshot has no usage and no limits."""
        key = (scope, name)
        if key not in self._accounts:
            usage = self._snapshot.usage.get(scope, {}).get(name, OwnerUsage())
            policy = self._snapshot.limits.get(scope, {}).get(name)
            self._accounts[key] = OwnerAccount(scope, name, usage, policy)
        return self._accounts[key]

    def account_here(self, user: str) -> OwnerAccount:
        """The usage of a user in this scaling group; it has no limits."""
        if user not in self._here:
            usage = OwnerUsage(self._slots_here.get(user, NO_SLOTS))
            self._here[user] = OwnerAccount(Scope.USER, user, usage, None)
        return self._here[user]

    @cached_property
    def _slots_here(self) -> dict[str, ResourceSlot]:
        """The slots of each user's kernels; those being released do not count, as for queues."""
        times = Counter(
            (session.owner.user, kernel.slots)
            for session in self._snapshot.sessions
            for kernel in session.kernels
            if kernel.agent is not None and not kernel.releasing and session.session_type.is_charged
        )
        parts: dict[str, list[ResourceSlot]] = {}
        for (user, slots), count in times.items():
            parts.setdefault(user, []).append(slots * count)
        return {user: total(slots) for user, slots in parts.items()}

    def _is_watched(self, account: OwnerAccount) -> bool:
        return self._watch_all or account.policy is not None


def _by_slot(pairs: Iterable[tuple[str, T]]) -> dict[str, tuple[T, ...]]:
    found: dict[str, tuple[T, ...]] = {}
    for slot, value in pairs:
        found[slot] = (*found.get(slot, ()), value)
    return found
