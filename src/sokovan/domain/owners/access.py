"""Access rules: a table by object kind, with exact comparison of owners.

Nothing here matches by prefix or pattern. An object that the caller may not see is
reported as not found; one that may be seen, but not changed, as forbidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto

from sokovan.domain.owners.tenancy import Role


class ObjectKind(StrEnum):
    """The kinds of objects that access rules exist for."""

    SESSION = auto()
    DEPLOYMENT = auto()
    KEY = auto()
    USER = auto()
    GROUP = auto()
    DOMAIN = auto()
    AGENT = auto()
    QUEUE = auto()
    SCALING_GROUP = auto()
    IMAGE = auto()
    TOPOLOGY = auto()
    BOOKING = auto()
    POLICY = auto()
    SYSTEM = auto()


class Action(StrEnum):
    """The two kinds of access."""

    SEE = auto()
    CHANGE = auto()


class AccessDecision(StrEnum):
    """The answer to an access check; HIDDEN is reported as not found."""

    ALLOWED = auto()
    FORBIDDEN = auto()
    HIDDEN = auto()


class Requirement(StrEnum):
    """The condition of a rule. An administrator meets every one."""

    ANYONE = auto()
    OWN = auto()  # the caller owns it, or administers its domain
    MEMBER = auto()  # the caller is in this group, or administers its domain
    SAME_DOMAIN = auto()
    DOMAIN_ADMIN = auto()  # the caller administers its domain
    ADMIN = auto()


@dataclass(frozen=True, slots=True)
class AccessSubject:
    """The caller, as far as access rules need to know."""

    user: str
    domain: str
    role: Role
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner of an object; an empty field means that it has none of that kind."""

    domain: str = ""
    user: str = ""
    group: str = ""


UNOWNED = Ownership()

RULES: dict[ObjectKind, tuple[Requirement, Requirement]] = {
    # kind              to see              to change
    ObjectKind.SESSION:       (Requirement.OWN,         Requirement.OWN),
    ObjectKind.DEPLOYMENT:    (Requirement.OWN,         Requirement.OWN),
    ObjectKind.KEY:           (Requirement.OWN,         Requirement.OWN),
    ObjectKind.USER:          (Requirement.OWN,         Requirement.DOMAIN_ADMIN),
    ObjectKind.GROUP:         (Requirement.MEMBER,      Requirement.DOMAIN_ADMIN),
    ObjectKind.DOMAIN:        (Requirement.SAME_DOMAIN, Requirement.ADMIN),
    ObjectKind.AGENT:         (Requirement.ANYONE,     Requirement.ADMIN),
    ObjectKind.QUEUE:         (Requirement.ANYONE,     Requirement.ADMIN),
    ObjectKind.SCALING_GROUP: (Requirement.ANYONE,     Requirement.ADMIN),
    ObjectKind.IMAGE:         (Requirement.ANYONE,     Requirement.ADMIN),
    ObjectKind.TOPOLOGY:      (Requirement.ANYONE,     Requirement.ADMIN),
    ObjectKind.BOOKING:       (Requirement.ANYONE,     Requirement.ADMIN),
    ObjectKind.POLICY:        (Requirement.OWN,         Requirement.ADMIN),
    ObjectKind.SYSTEM:        (Requirement.ADMIN,       Requirement.ADMIN),
}  # fmt: skip

_RANK = {Role.USER: 0, Role.DOMAIN_ADMIN: 1, Role.ADMIN: 2}
# Requirements that a role can never meet, so that the owner need not be looked up.
_NEVER_MET: dict[Role, frozenset[Requirement]] = {
    Role.USER: frozenset({Requirement.DOMAIN_ADMIN, Requirement.ADMIN}),
    Role.DOMAIN_ADMIN: frozenset({Requirement.ADMIN}),
    Role.ADMIN: frozenset(),
}


def may(subject: AccessSubject, act: Action, kind: ObjectKind, ownership: Ownership = UNOWNED) -> bool:
    """Whether the caller may do this with an object of this kind and owner."""
    return _meets(subject, _needed(act, kind), ownership)


def role_may(subject: AccessSubject, act: Action, kind: ObjectKind) -> bool:
    """Whether the caller's role allows this for any object of this kind."""
    return _needed(act, kind) not in _NEVER_MET[subject.role]


def access_decision(
    subject: AccessSubject, act: Action, kind: ObjectKind, ownership: Ownership = UNOWNED
) -> AccessDecision:
    """The answer to a request on an existing object."""
    if may(subject, act, kind, ownership):
        return AccessDecision.ALLOWED
    seen = may(subject, Action.SEE, kind, ownership)
    if not role_may(subject, act, kind) or (act is Action.CHANGE and seen):
        return AccessDecision.FORBIDDEN
    return AccessDecision.HIDDEN


def may_grant(subject: AccessSubject, role: Role, domain: str) -> bool:
    """Whether the caller may grant this role in a domain: never above the own role."""
    if subject.role is Role.ADMIN:
        return True
    return subject.role is Role.DOMAIN_ADMIN and domain == subject.domain and _RANK[role] <= _RANK[subject.role]


def may_act_for(subject: AccessSubject, user: str, role: Role) -> bool:
    """Whether the caller may act for this user: itself, or a role not above its own."""
    return user == subject.user or _RANK[role] <= _RANK[subject.role]


def session_scope(subject: AccessSubject) -> Ownership:
    """The owners whose sessions the caller sees; an empty field does not limit."""
    match subject.role:
        case Role.ADMIN:
            return UNOWNED
        case Role.DOMAIN_ADMIN:
            return Ownership(domain=subject.domain)
        case Role.USER:
            return Ownership(user=subject.user)


def _needed(act: Action, kind: ObjectKind) -> Requirement:
    to_see, to_change = RULES[kind]
    return to_see if act is Action.SEE else to_change


def _meets(subject: AccessSubject, needed: Requirement, ownership: Ownership) -> bool:
    if subject.role is Role.ADMIN or needed is Requirement.ANYONE:
        return True
    same_domain = ownership.domain != "" and ownership.domain == subject.domain
    administers = subject.role is Role.DOMAIN_ADMIN and same_domain
    match needed:
        case Requirement.SAME_DOMAIN:
            return same_domain
        case Requirement.DOMAIN_ADMIN:
            return administers
        case Requirement.MEMBER:
            return administers or (ownership.group != "" and ownership.group in subject.groups)
        case Requirement.OWN if subject.role is Role.USER:
            return ownership.user != "" and ownership.user == subject.user
        case Requirement.OWN:
            return administers
        case _:
            return False
