"""Finding objects for a caller."""

from __future__ import annotations

import pytest

from sokovan.api.access.authentication import AuthenticatedPrincipal
from sokovan.api.access.lookup import kernel_at, kind_text, read_session, require, require_role, visible_filter
from sokovan.api.errors import AmbiguousName, Forbidden
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.access import Action, ObjectKind, Ownership
from sokovan.domain.owners.tenancy import Keypair, Owner, Role, User
from sokovan.ports.repositories.credentials import Principal
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.stored_cluster import StoredCluster


def principal(user: str, role: Role = Role.USER, domain: str = "north") -> AuthenticatedPrincipal:
    return AuthenticatedPrincipal(Principal(Keypair(AccessKey("AK-1"), user), User(user, domain, role=role)), "digest")


ALICE, DOMAIN_ADMIN, ADMIN = (
    principal("alice"),
    principal("sam", Role.DOMAIN_ADMIN),
    principal("root", Role.ADMIN, "default"),
)


def test_a_filter_is_narrowed_to_what_the_caller_sees() -> None:
    assert visible_filter(ALICE) == SessionFilter(user="alice")
    assert visible_filter(DOMAIN_ADMIN, SessionFilter(queue="q")) == SessionFilter(queue="q", domain="north")
    assert visible_filter(ADMIN, SessionFilter(user="bob")) == SessionFilter(user="bob")


def test_a_filter_for_what_the_caller_does_not_see_leaves_nothing() -> None:
    assert visible_filter(ALICE, SessionFilter(user="bob")) is None
    assert visible_filter(DOMAIN_ADMIN, SessionFilter(domain="south")) is None
    assert visible_filter(DOMAIN_ADMIN, SessionFilter(user="bob")) == SessionFilter(user="bob", domain="north")


@pytest.mark.slow
async def test_a_session_is_found_by_id_name_and_prefix_if_visible() -> None:
    async with StoredCluster.open() as cluster:
        for name, user, domain in (("s-1", "alice", "north"), ("s-2", "bob", "north"), ("t-3", "carl", "south")):
            await cluster.submit(name, name="train", owner=Owner(user=user, domain=domain))

        async def found(ref: str, who: AuthenticatedPrincipal) -> str:
            return (await read_session(cluster.store, ref, who)).session_id

        assert [await found(ref, ALICE) for ref in ("s-1", "train", "tra", "s")] == ["s-1"] * 4
        assert await found("s-2", DOMAIN_ADMIN) == "s-2"
        assert await found("t-3", ADMIN) == "t-3"
        for ref, who in (("s-2", ALICE), ("t-3", DOMAIN_ADMIN), ("nothing", ADMIN), ("a\x00b", ADMIN), ("", ALICE)):
            with pytest.raises(ObjectNotFound):
                await found(ref, who)
        with pytest.raises(AmbiguousName, match=r"s-1|s-2") as prefix:
            await found("s-", DOMAIN_ADMIN)
        with pytest.raises(AmbiguousName) as exact:
            await found("train", DOMAIN_ADMIN)
        assert prefix.value.hint == "give more of the name, or the full id"
        assert exact.value.hint == "several have exactly this name: give the id of one"


async def test_an_administrator_finds_the_own_session_first_by_a_shared_name() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.submit("s-1", name="train", owner=Owner(user="root", domain="default"))
        await cluster.submit("s-2", name="train", owner=Owner(user="bob", domain="north"))
        record = await read_session(cluster.store, "train", ADMIN)
        assert record.session_id == "s-1"
        assert kernel_at(record, 0).kernel_id == "s-1.0"
        with pytest.raises(ObjectNotFound, match="train/7") as refusal:
            kernel_at(record, 7)
        assert refusal.value.hint == "session train has kernel 0 only"


def test_what_may_not_be_seen_is_not_there_and_what_may_not_be_done_is_forbidden() -> None:
    require(ALICE, Action.SEE, ObjectKind.QUEUE, name="q")
    with pytest.raises(Forbidden, match="queue 'q'"):
        require(ALICE, Action.CHANGE, ObjectKind.QUEUE, name="q")
    with pytest.raises(ObjectNotFound, match="user 'bob'"):
        require(ALICE, Action.SEE, ObjectKind.USER, Ownership(domain="north", user="bob"), name="bob")


def test_what_a_role_never_does_is_refused_before_anything_is_looked_up() -> None:
    require_role(DOMAIN_ADMIN, Action.CHANGE, ObjectKind.USER)
    with pytest.raises(Forbidden, match="domain-admin may not change any scaling group"):
        require_role(DOMAIN_ADMIN, Action.CHANGE, ObjectKind.SCALING_GROUP)


def test_kinds_are_said_as_people_say_them() -> None:
    assert [kind_text(kind) for kind in (ObjectKind.POLICY, ObjectKind.SCALING_GROUP, ObjectKind.KEY)] == [
        "quota",
        "scaling group",
        "key",
    ]
