"""Filters events by what the caller may see."""

from __future__ import annotations

import pytest

from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.api.streaming import visibility
from sokovan.api.streaming.visibility import EventVisibility, SessionOwners
from sokovan.domain.events import AgentEnrolled, Event, KernelMoved, NoticeIssued, SessionMoved, VerdictsChanged
from sokovan.domain.ids import AccessKey, AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.domain.owners.access import Ownership
from sokovan.domain.owners.tenancy import Keypair, Owner, Role, User
from sokovan.ports.repositories.credentials import Principal
from sokovan.testing.stored_cluster import StoredCluster

ENROLLED = AgentEnrolled(at_ms=0, agent_id=AgentId("a1"), incarnation=1)
NOTICE = NoticeIssued(at_ms=0, topic="quota", about="south")


def principal(user: str, role: Role = Role.USER, domain: str = "north") -> AuthenticatedPrincipal:
    return AuthenticatedPrincipal(Principal(Keypair(AccessKey("AK-1"), user), User(user, domain, role=role)), "digest")


def about(name: str) -> tuple[Event, Event]:
    session = SessionMoved(
        at_ms=0, session_id=SessionId(name), before=SessionStatus.PENDING, after=SessionStatus.CANCELLED, trigger="x"
    )
    kernel = KernelMoved(
        at_ms=0,
        kernel_id=KernelId(f"{name}.0"),
        session_id=SessionId(name),
        before=KernelStatus.PENDING,
        after=KernelStatus.CANCELLED,
        trigger="x",
    )
    return session, kernel


@pytest.mark.parametrize(
    ("who", "seen"),
    [
        (principal("alice"), ["a"]),
        (principal("bob"), ["b"]),
        (principal("other"), []),
        (principal("sam", Role.DOMAIN_ADMIN), ["a", "b"]),
        (principal("sam", Role.DOMAIN_ADMIN, "south"), ["c"]),
        (principal("root", Role.ADMIN), ["a", "b", "c"]),
    ],
)
async def test_events_of_sessions_and_kernels_are_visible_to_those_who_see_them(
    who: AuthenticatedPrincipal, seen: list[str]
) -> None:
    async with StoredCluster.open() as cluster:
        for name, user, domain in (("a", "alice", "north"), ("b", "bob", "north"), ("c", "carl", "south")):
            await cluster.submit(name, owner=Owner(user=user, domain=domain))
        events = [*about("a"), ENROLLED, *about("b"), *about("c"), *about("unknown")]
        visible = await EventVisibility(SessionOwners(cluster.store), who).of(events)
        wanted = [
            one for name in (*seen, *(["unknown"] if who.subject.role is Role.ADMIN else [])) for one in about(name)
        ]
        assert [one for one in visible if one != ENROLLED] == wanted
        assert ENROLLED in visible


async def test_events_with_texts_about_other_owners_are_for_administrators() -> None:
    async with StoredCluster.open() as cluster:
        owners = SessionOwners(cluster.store)
        assert await EventVisibility(owners, principal("alice")).of([NOTICE]) == []
        assert await EventVisibility(owners, principal("root", Role.ADMIN)).of([NOTICE]) == [NOTICE]


async def test_new_reasons_are_told_of_visible_sessions_once_for_each_reason() -> None:
    ids = [SessionId(name) for name in ("a", "b", "c")]
    reasons = {
        one: VerdictsChanged(at_ms=at_ms, session_ids=(one,), code=code)
        for one, at_ms, code in zip(ids, (1, 2, 3), ("HELD", "HELD", "NEVER_FITS"), strict=True)
    }
    async with StoredCluster.open() as cluster:
        for name, user in (("a", "alice"), ("b", "bob"), ("c", "alice")):
            await cluster.submit(name, owner=Owner(user=user, domain="north"))
        owners = SessionOwners(cluster.store)
        own = await EventVisibility(owners, principal("alice")).of_reasons(reasons)
        assert [(one.code, one.session_ids, one.at_ms) for one in own] == [
            ("HELD", ("a",), 3),
            ("NEVER_FITS", ("c",), 3),
        ]
        everything = await EventVisibility(owners, principal("root", Role.ADMIN)).of_reasons(reasons)
        assert [(one.code, one.session_ids) for one in everything] == [("HELD", ("a", "b")), ("NEVER_FITS", ("c",))]
        assert await EventVisibility(owners, principal("other")).of_reasons(reasons) == []


async def test_whose_a_session_is_is_looked_up_once_for_all_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("a", owner=Owner(user="alice", domain="north"))
        owners = SessionOwners(cluster.store)
        assert len(await EventVisibility(owners, principal("alice")).of(about("a"))) == 2
        monkeypatch.setattr(cluster.store, "read", None)
        assert len(await EventVisibility(owners, principal("alice")).of(about("a"))) == 2
        assert await EventVisibility(owners, principal("bob")).of(about("a")) == []


async def test_owners_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visibility, "KNOWN_MAX", 3)
    async with StoredCluster.open() as cluster:
        for number in range(5):
            await cluster.submit(f"s{number}", owner=Owner(user="alice", domain="north"))
        owners = SessionOwners(cluster.store)
        wanted = [SessionId(f"s{number}") for number in range(5)]
        assert await owners.of(wanted) == dict.fromkeys(wanted, Ownership(user="alice", domain="north"))
        assert len(owners._known) == 3
