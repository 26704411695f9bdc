"""Who may see and change what: a table of kinds, and exact comparison.

Nothing here matches by prefix or pattern. An object that the caller may not see is
treated as if it were not there; one that may be seen, but not changed, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto

from sokovan.domain.tenancy import Role


class ObjectKind(StrEnum):
    """What an object is, as far as access goes."""

    SESSION = auto()
    KEY = auto()
    USER = auto()
    GROUP = auto()
    DOMAIN = auto()
    AGENT = auto()
    QUEUE = auto()
    SCALING_GROUP = auto()
    IMAGE = auto()
    POLICY = auto()
    SYSTEM = auto()


class Action(StrEnum):
    """What the caller wants to do with it."""

    SEE = auto()
    CHANGE = auto()


class AccessDecision(StrEnum):
    """Yes; no, and it may be said so; no, and there is nothing to be seen."""

    YES = auto()
    FORBIDDEN = auto()
    HIDDEN = auto()


class Needed(StrEnum):
    """What a rule asks of the caller. An administrator meets every one."""

    ANYBODY = auto()
    OWN = auto()  # it is the caller's own, or the caller administers its domain
    MEMBER = auto()  # the caller is in this group, or administers its domain
    SAME_DOMAIN = auto()
    STEWARD = auto()  # the caller administers the domain it is in
    ADMIN = auto()


@dataclass(frozen=True, slots=True)
class Standing:
    """Who asks."""

    user: str
    domain: str
    role: Role
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Belonging:
    """Whose an object is; an empty field says that it is nobody's in particular."""

    domain: str = ""
    user: str = ""
    group: str = ""


NOBODYS = Belonging()

RULES: dict[ObjectKind, tuple[Needed, Needed]] = {
    # kind              to see              to change
    ObjectKind.SESSION:       (Needed.OWN,         Needed.OWN),
    ObjectKind.KEY:           (Needed.OWN,         Needed.OWN),
    ObjectKind.USER:          (Needed.OWN,         Needed.STEWARD),
    ObjectKind.GROUP:         (Needed.MEMBER,      Needed.STEWARD),
    ObjectKind.DOMAIN:        (Needed.SAME_DOMAIN, Needed.ADMIN),
    ObjectKind.AGENT:         (Needed.ANYBODY,     Needed.ADMIN),
    ObjectKind.QUEUE:         (Needed.ANYBODY,     Needed.ADMIN),
    ObjectKind.SCALING_GROUP: (Needed.ANYBODY,     Needed.ADMIN),
    ObjectKind.IMAGE:         (Needed.ANYBODY,     Needed.ADMIN),
    ObjectKind.POLICY:        (Needed.OWN,         Needed.ADMIN),
    ObjectKind.SYSTEM:        (Needed.ADMIN,       Needed.ADMIN),
}  # fmt: skip

_RANK = {Role.USER: 0, Role.DOMAIN_ADMIN: 1, Role.ADMIN: 2}
# What a role can do with no object at all, so that there is no need to look whose it is.
_BEYOND: dict[Role, frozenset[Needed]] = {
    Role.USER: frozenset({Needed.STEWARD, Needed.ADMIN}),
    Role.DOMAIN_ADMIN: frozenset({Needed.ADMIN}),
    Role.ADMIN: frozenset(),
}


def may(standing: Standing, act: Action, kind: ObjectKind, belonging: Belonging = NOBODYS) -> bool:
    """Whether the caller may do this with an object of this kind that is so owned."""
    return _meets(standing, _needed(act, kind), belonging)


def may_at_all(standing: Standing, act: Action, kind: ObjectKind) -> bool:
    """Whether there can be an object of this kind with which the caller may do this."""
    return _needed(act, kind) not in _BEYOND[standing.role]


def judged(standing: Standing, act: Action, kind: ObjectKind, belonging: Belonging = NOBODYS) -> AccessDecision:
    """The answer to a request on an object that is there."""
    if may(standing, act, kind, belonging):
        return AccessDecision.YES
    seen = may(standing, Action.SEE, kind, belonging)
    if not may_at_all(standing, act, kind) or (act is Action.CHANGE and seen):
        return AccessDecision.FORBIDDEN
    return AccessDecision.HIDDEN


def may_grant(standing: Standing, role: Role, domain: str) -> bool:
    """Whether the caller may give somebody this role there: never more than his own."""
    if standing.role is Role.ADMIN:
        return True
    return standing.role is Role.DOMAIN_ADMIN and domain == standing.domain and _RANK[role] <= _RANK[standing.role]


def may_act_for(standing: Standing, user: str, role: Role) -> bool:
    """Whether the caller may hold what this user holds: himself, or nobody above him."""
    return user == standing.user or _RANK[role] <= _RANK[standing.role]


def sessions_of(standing: Standing) -> Belonging:
    """What limits the sessions that the caller sees; an empty field does not limit."""
    match standing.role:
        case Role.ADMIN:
            return NOBODYS
        case Role.DOMAIN_ADMIN:
            return Belonging(domain=standing.domain)
        case Role.USER:
            return Belonging(user=standing.user)


def _needed(act: Action, kind: ObjectKind) -> Needed:
    to_see, to_change = RULES[kind]
    return to_see if act is Action.SEE else to_change


def _meets(standing: Standing, needed: Needed, belonging: Belonging) -> bool:
    if standing.role is Role.ADMIN or needed is Needed.ANYBODY:
        return True
    same_domain = belonging.domain != "" and belonging.domain == standing.domain
    stewards = standing.role is Role.DOMAIN_ADMIN and same_domain
    match needed:
        case Needed.SAME_DOMAIN:
            return same_domain
        case Needed.STEWARD:
            return stewards
        case Needed.MEMBER:
            return stewards or (belonging.group != "" and belonging.group in standing.groups)
        case Needed.OWN if standing.role is Role.USER:
            return belonging.user != "" and belonging.user == standing.user
        case Needed.OWN:
            return stewards
        case _:
            return False
