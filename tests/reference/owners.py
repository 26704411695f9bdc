"""Owners of the reference scheduler: their usage, and the built-in validators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.session import SessionType
from sokovan.domain.slots import ResourceSlot, total
from sokovan.scheduling.snapshot import KernelWorkload, OwnerUsage, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Code


class Owners:
    """Usage by owner in this cycle, on top of the snapshot."""

    def __init__(self, snapshot: SystemSnapshot, validators: Sequence[str]) -> None:
        self._snapshot, self._validators = snapshot, validators
        self._taken: list[tuple[SessionWorkload, KernelWorkload]] = []
        self._begun: list[SessionWorkload] = []
        self._never: list[SessionWorkload] = []

    def take(self, session: SessionWorkload, kernels: Sequence[KernelWorkload]) -> None:
        """Count kernels that are placed or reserved; those of system sessions count for no owner."""
        if not session.session_type.is_charged:
            return
        self._taken.extend((session, kernel) for kernel in kernels)

    def begin(self, session: SessionWorkload) -> None:
        """Count a session that waits no longer."""
        self._begun.append(session)

    def leave_out(self, session: SessionWorkload) -> None:
        """Count a session that cannot start in this cycle as not waiting."""
        self._never.append(session)

    def objection(self, session: SessionWorkload, kernels: Sequence[KernelWorkload], *, starts: bool) -> Code | None:
        """The first objection, in the order of the profile."""
        request = total(kernel.slots for kernel in kernels)
        for name in self._validators:
            if not session.session_type.is_charged and name not in _FOR_ALL:
                continue
            code = _RULES[name](self, session, request, starts)
            if code is not None:
                return code
        return self.array_is_full(session, starts=starts)

    def array_is_full(self, session: SessionWorkload, *, starts: bool = True) -> Code | None:
        """Whether as many sessions of its array run or begin as may run at once; a rule of every profile."""
        members = [one for one in self._snapshot.sessions if one.array == session.array]
        runs = [one for one in members if one in self._begun or any(k.agent is not None for k in one.kernels)]
        full = session.array_limit is not None and starts and len(runs) >= session.array_limit
        return Code.ARRAY_LIMIT if full else None

    def used(self, scope: Scope, name: str) -> ResourceSlot:
        """The current usage of an owner."""
        taken = [kernel.slots for session, kernel in self._taken if _name(session, scope) == name]
        return total([self._usage(scope, name).slots, *taken])

    def used_here(self, user: str) -> ResourceSlot:
        """The current usage of a user in this scaling group; kernels being released do not count."""
        runs = [(s, k) for s in self._snapshot.sessions for k in s.kernels if k.agent is not None and not k.releasing]
        runs = [(session, kernel) for session, kernel in runs if session.session_type.is_charged]
        return total(kernel.slots for session, kernel in (*runs, *self._taken) if session.owner.user == user)

    def over(self, scope: Scope, session: SessionWorkload, request: ResourceSlot) -> Code | None:
        """The code of a scope whose slot limits would be exceeded."""
        name = _name(session, scope)
        limits, used = self._policy(scope, name).slots_max, self.used(scope, name)
        passed = any(slot in limits and used[slot] + amount > limits[slot] for slot, amount in request.items())
        return Code(f"QUOTA_{scope.name}") if passed else None

    def too_many_run(self, session: SessionWorkload, request: ResourceSlot, starts: bool) -> Code | None:
        """Whether an owner has reached its session limit."""
        del request
        for scope in Scope:
            name = _name(session, scope)
            most = self._policy(scope, name).sessions_max
            begun = sum(1 for other in self._begun if other.session_type.is_charged and _name(other, scope) == name)
            if most is not None and starts and self._usage(scope, name).sessions + begun >= most:
                return Code.CONCURRENCY_LIMIT
        return None

    def too_many_wait(self, session: SessionWorkload, request: ResourceSlot, starts: bool) -> Code | None:
        """Whether waiting sessions ahead reach the limit of an owner."""
        del request
        for scope in Scope:
            most = self._policy(scope, _name(session, scope)).pending_sessions_max
            if most is not None and starts and len(self._ahead(session, scope)) >= most:
                return Code.PENDING_LIMIT
        return None

    def too_much_waits(self, session: SessionWorkload, request: ResourceSlot, starts: bool) -> Code | None:
        """Whether waiting sessions ahead and this one request more than the limit of an owner."""
        for scope in Scope:
            limits = self._policy(scope, _name(session, scope)).pending_slots_max
            ahead = [k.slots for other in self._ahead(session, scope) for k in other.kernels if k.agent is None]
            sums = total([request, *ahead])
            if starts and any(sums[slot] > limit for slot, limit in limits.items()):
                return Code.PENDING_LIMIT
        return None

    def waits_for_others(self, session: SessionWorkload, request: ResourceSlot, starts: bool) -> Code | None:
        """Whether a dependency has failed or has not ended."""
        del request, starts
        done = all(self._snapshot.outcomes.get(name) for name in session.dependencies)
        return None if done else Code.DEPENDENCY

    def too_early(self, session: SessionWorkload, request: ResourceSlot, starts: bool) -> Code | None:
        """Whether the start time of a batch session has not come yet."""
        del request, starts
        if session.session_type is not SessionType.BATCH or session.starts_at_ms is None:
            return None
        return Code.NOT_YET_BEGIN if session.starts_at_ms > self._snapshot.now_ms else None

    def _ahead(self, session: SessionWorkload, scope: Scope) -> list[SessionWorkload]:
        """The sessions of an owner without running or placed kernels that come first: by priority, then age."""
        return [
            other
            for other in (*self._snapshot.sessions, *self._snapshot.pending_elsewhere)
            if _name(other, scope) == _name(session, scope)
            and _place(other) < _place(session)
            and all(kernel.agent is None or kernel.releasing for kernel in other.kernels)
            and other not in self._begun
            and other not in self._never
            and other.session_type.is_charged
            and not self._is_held(other)
        ]

    def _is_held(self, session: SessionWorkload) -> bool:
        """Whether a gate, its start time or a dependency holds the session."""
        late = session.starts_at_ms is not None and session.starts_at_ms > self._snapshot.now_ms
        return bool(session.gates) or late or not all(self._snapshot.outcomes.get(one) for one in session.dependencies)

    def _usage(self, scope: Scope, name: str) -> OwnerUsage:
        return self._snapshot.usage.get(scope, {}).get(name, OwnerUsage())

    def _policy(self, scope: Scope, name: str) -> ResourcePolicy:
        return self._snapshot.limits.get(scope, {}).get(name, ResourcePolicy("none"))


def _name(session: SessionWorkload, scope: Scope) -> str:
    owner = session.owner
    names = {
        Scope.KEYPAIR: str(owner.access_key),
        Scope.USER: owner.user,
        Scope.GROUP: owner.group,
        Scope.DOMAIN: owner.domain,
    }
    return names[scope]


def _place(session: SessionWorkload) -> tuple[int, int, str]:
    return (-session.priority, session.submitted, session.session_id)


Rule = Callable[[Owners, SessionWorkload, ResourceSlot, bool], Code | None]

# Rules that are no quotas, and so hold for system sessions too.
_FOR_ALL = frozenset({"dependencies", "reserved-batch-session"})
_RULES: dict[str, Rule] = {
    "keypair-resource-limit": lambda owners, session, request, _: owners.over(Scope.KEYPAIR, session, request),
    "group-resource-limit": lambda owners, session, request, _: owners.over(Scope.GROUP, session, request),
    "domain-resource-limit": lambda owners, session, request, _: owners.over(Scope.DOMAIN, session, request),
    "user-resource-limit": lambda owners, session, request, _: owners.over(Scope.USER, session, request),
    "concurrency": Owners.too_many_run,
    "dependencies": Owners.waits_for_others,
    "pending-session-count-limit": Owners.too_many_wait,
    "pending-session-resource-limit": Owners.too_much_waits,
    "reserved-batch-session": Owners.too_early,
}
