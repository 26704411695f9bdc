"""Tokens, their digests, and how long a look is remembered."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sokovan.api.access.authentication import (
    REJECTED_KEPT_S,
    AuthenticatedPrincipal,
    Authenticator,
    new_token,
    token_digest,
    token_of,
)
from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.tenancy import Domain, Keypair, Role, User
from sokovan.ports.repositories.credentials import Principal
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import StoredCluster

PEPPER = b"pepper" * 8
KEY = AccessKey("AK-1")


async def create_user(cluster: StoredCluster, token: str) -> None:
    async def work(unit: Any) -> None:
        await unit.catalog.put(Domain("north"), User("alice", "north"), Keypair(KEY, "alice"))
        await unit.credentials.put(KEY, token_digest(token, PEPPER))

    await cluster.store.run(work)


def test_a_token_contains_its_key_and_256_new_random_bits() -> None:
    token = new_token(KEY)
    assert re.fullmatch(r"sk-AK-1\.[A-Za-z0-9_-]{43}", token)
    assert new_token(KEY) != token


def test_a_digest_depends_on_token_and_pepper_and_shows_neither() -> None:
    token = new_token(KEY)
    digest = token_digest(token, PEPPER)
    assert re.fullmatch(r"[0-9a-f]{64}", digest)
    assert digest != token_digest(token, b"other" * 8)
    assert digest != token_digest(new_token(KEY), PEPPER)
    assert token.rpartition(".")[2] not in digest


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic abc",
        "Bearer sk-AK-1",
        "Bearer sk-AK-1.short",
        "Bearer sk-." + "x" * 43,
        "Bearer sk-AK-1." + "x" * 44,
        "Bearer sk-AK-1." + "é" * 43,
        "Bearer sk-AK 1." + "x" * 43,
        "Bearer xx-AK-1." + "x" * 43,
    ],
)
def test_what_cannot_be_a_token_is_none(header: str | None) -> None:
    assert token_of(header) is None


def test_the_scheme_is_read_in_any_case() -> None:
    token = new_token(KEY)
    assert token_of(f"bearer {token}") == token_of(f"Bearer  {token} ") == token


async def test_a_token_is_known_by_its_digest_and_forgotten_after_the_time_is_up() -> None:
    clock, token = VirtualClock(), new_token(KEY)
    async with StoredCluster.open(clock=clock) as cluster:
        await create_user(cluster, token)
        authenticator = Authenticator(cluster.store, clock, pepper=PEPPER, kept_s=2)
        found = await authenticator.principal(token)
        assert found is not None
        assert found[1].user.name == "alice"
        await cluster.store.run(lambda unit: unit.credentials.remove([KEY]))
        assert await authenticator.principal(token) is not None
        await clock.advance(2)
        assert await authenticator.principal(token) is None


async def test_a_key_that_is_forgotten_on_purpose_is_looked_up_at_once() -> None:
    clock, token = VirtualClock(), new_token(KEY)
    async with StoredCluster.open(clock=clock) as cluster:
        await create_user(cluster, token)
        authenticator = Authenticator(cluster.store, clock, pepper=PEPPER, kept_s=60)
        assert await authenticator.principal(token) is not None
        await cluster.put(User("alice", "north", role=Role.ADMIN))
        authenticator.forget_user("alice")
        found = await authenticator.principal(token)
        assert found is not None
        assert found[1].user.role is Role.ADMIN
        await cluster.store.run(lambda unit: unit.credentials.remove([KEY]))
        authenticator.forget(KEY)
        assert await authenticator.principal(token) is None


async def test_a_token_of_another_pepper_or_with_another_key_in_it_opens_nothing() -> None:
    clock, token = VirtualClock(), new_token(KEY)
    async with StoredCluster.open(clock=clock) as cluster:
        await create_user(cluster, token)
        assert await Authenticator(cluster.store, clock, pepper=b"x" * 32, kept_s=1).principal(token) is None
        changed = token.replace("AK-1", "AK-2")
        assert await Authenticator(cluster.store, clock, pepper=PEPPER, kept_s=1).principal(changed) is None


def test_a_principal_is_the_same_for_access_rules_and_for_the_controller() -> None:
    user = User("alice", "north", groups=("lab", "shop"), role=Role.DOMAIN_ADMIN)
    principal = AuthenticatedPrincipal(Principal(Keypair(KEY, "alice"), user), "digest")
    assert (principal.subject.user, principal.subject.domain, principal.subject.role) == (
        "alice",
        "north",
        Role.DOMAIN_ADMIN,
    )
    assert (principal.caller.owner.group, principal.caller.owner.access_key) == ("lab", KEY)
    assert principal.caller.groups == principal.subject.groups == ("lab", "shop")
    lonely = AuthenticatedPrincipal(Principal(Keypair(KEY, "alice"), User("alice", "north")), "digest")
    assert lonely.caller.owner.group == "default"


async def test_a_token_that_was_refused_is_looked_for_again_soon_and_at_once_if_its_user_changed() -> None:
    clock, token = VirtualClock(), new_token(KEY)
    async with StoredCluster.open(clock=clock) as cluster:
        authenticator = Authenticator(cluster.store, clock, pepper=PEPPER, kept_s=2)
        assert await authenticator.principal(token) is None
        await create_user(cluster, token)
        assert await authenticator.principal(token) is None
        assert not authenticator.is_cached(token)
        authenticator.forget_user("alice")
        assert await authenticator.principal(token) is not None
        assert authenticator.is_cached(token)
        other = Authenticator(cluster.store, clock, pepper=PEPPER, kept_s=2)
        await cluster.store.run(lambda unit: unit.credentials.remove([KEY]))
        assert await other.principal(token) is None
        await cluster.store.run(lambda unit: unit.credentials.put(KEY, token_digest(token, PEPPER)))
        await clock.advance(REJECTED_KEPT_S)
        assert await other.principal(token) is not None


async def test_what_was_refused_is_remembered_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sokovan.api.access.authentication.CACHED_MAX", 3)
    async with StoredCluster.open() as cluster:
        authenticator = Authenticator(cluster.store, VirtualClock(), pepper=PEPPER, kept_s=2)
        for _ in range(10):
            assert await authenticator.principal(new_token(KEY)) is None
        assert len(authenticator._rejected) == 3
