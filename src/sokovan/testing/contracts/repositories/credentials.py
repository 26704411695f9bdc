"""Contract of `ports.repositories.credentials.Credentials`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from sokovan.domain.errors import Conflict, ObjectNotFound
from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.tenancy import Domain, Keypair, Role, User
from sokovan.ports.repositories.credentials import Principal
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import StoredCluster, refusal

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]


async def keypair(cluster: StoredCluster, *, role: Role = Role.USER, active: bool = True) -> Principal:
    """A new user with a keypair, without a credential."""
    domain = Domain(cluster.new("d"))
    user = User(cluster.new("u"), domain.name, role=role)
    pair = Keypair(AccessKey(cluster.new("k")), user.name, active=active)
    await cluster.put(domain, user, pair)
    return Principal(pair, user)


async def put(cluster: StoredCluster, access_key: str, digest: str) -> None:
    """Set the digest of a keypair."""
    await cluster.store.run(lambda unit: unit.credentials.put(AccessKey(access_key), digest))


async def found(cluster: StoredCluster, digest: str) -> Principal | None:
    """The principal of a digest."""
    return await cluster.store.read(lambda unit: unit.credentials.find(digest))


async def a_digest_identifies_its_keypair_and_user(cluster: StoredCluster) -> None:
    """With the user's role; an unknown digest has no principal."""
    for role in Role:
        owner, digest = await keypair(cluster, role=role), cluster.new("digest")
        expect(await found(cluster, digest) is None, "an unknown digest has a principal")
        await put(cluster, owner.keypair.access_key, digest)
        expect(await found(cluster, digest) == owner, "a digest does not lead to its owner")
        for other in (digest[:-1], digest.lower(), digest + " ", ""):
            expect(await found(cluster, other) is None, f"{other!r} opens what {digest!r} should")


async def a_digest_gives_the_current_state_of_its_owner(cluster: StoredCluster) -> None:
    """A revoked role is gone."""
    owner, digest = await keypair(cluster, role=Role.ADMIN), cluster.new("digest")
    await put(cluster, owner.keypair.access_key, digest)
    demoted = User(owner.user.name, owner.user.domain, role=Role.USER)
    await cluster.put(demoted)
    expect(await found(cluster, digest) == Principal(owner.keypair, demoted), "a digest leads to what the user was")


async def a_new_digest_replaces_the_old_one(cluster: StoredCluster) -> None:
    """The old one is no longer valid; setting the same again changes nothing."""
    owner, old, new = await keypair(cluster), cluster.new("digest"), cluster.new("digest")
    for digest in (old, new, new):
        await put(cluster, owner.keypair.access_key, digest)
    expect(await found(cluster, old) is None, "the digest before still opens something")
    expect(await found(cluster, new) == owner, "the new digest opens nothing")


async def an_inactive_keypair_is_not_valid(cluster: StoredCluster) -> None:
    """Until it is active again."""
    owner, digest = await keypair(cluster, active=False), cluster.new("digest")
    await put(cluster, owner.keypair.access_key, digest)
    expect(await found(cluster, digest) is None, "an inactive keypair is valid")
    active = Keypair(owner.keypair.access_key, owner.user.name)
    await cluster.put(active)
    expect(await found(cluster, digest) == Principal(active, owner.user), "a keypair that is active opens nothing")


async def a_digest_belongs_to_one_keypair(cluster: StoredCluster) -> None:
    """A second one is refused without quoting the digest."""
    first, second, digest = await keypair(cluster), await keypair(cluster), cluster.new("digest")
    await put(cluster, first.keypair.access_key, digest)
    error = await refusal(put(cluster, second.keypair.access_key, digest), Conflict)
    expect(digest not in f"{error}{error.__cause__}{error.hint}", "a refusal quotes the digest")
    expect(await found(cluster, digest) == first, "a digest went to another keypair")


async def a_missing_keypair_gets_no_credential(cluster: StoredCluster) -> None:
    """ObjectNotFound."""
    for name in (cluster.new("k"), "", "a b", "x\0y"):
        error = await refusal(put(cluster, name, cluster.new("digest")), ObjectNotFound)
        expect(error.what == "key", f"the refusal names {error.what}")


async def a_removed_credential_is_not_valid(cluster: StoredCluster) -> None:
    """Others remain valid; unknown ones are ignored; the digest can be reused."""
    gone, stays = await keypair(cluster), await keypair(cluster)
    digests = [cluster.new("digest") for _ in range(2)]
    for owner, digest in zip((gone, stays), digests, strict=True):
        await put(cluster, owner.keypair.access_key, digest)
    missing = AccessKey(cluster.new("k"))
    await cluster.store.run(lambda unit: unit.credentials.remove([gone.keypair.access_key, missing]))
    expect(await found(cluster, digests[0]) is None, "a removed credential opens something")
    expect(await found(cluster, digests[1]) == stays, "another one was removed")
    await put(cluster, stays.keypair.access_key, digests[0])
    expect(await found(cluster, digests[0]) == stays, "the digest of a removed credential cannot be reused")


async def a_credential_is_removed_with_its_keypair(cluster: StoredCluster) -> None:
    """A new keypair of the same name does not have it."""
    owner, digest = await keypair(cluster), cluster.new("digest")
    await put(cluster, owner.keypair.access_key, digest)
    await cluster.store.run(lambda unit: unit.catalog.remove(Keypair, owner.keypair.access_key))
    expect(await found(cluster, digest) is None, "a missing keypair is valid")
    await cluster.put(owner.keypair)
    expect(await found(cluster, digest) is None, "a new keypair has the credential of an old one")


async def an_updated_keypair_keeps_its_credential(cluster: StoredCluster) -> None:
    """Also if its user is updated."""
    owner, digest = await keypair(cluster), cluster.new("digest")
    await put(cluster, owner.keypair.access_key, digest)
    await cluster.put(owner.user, owner.keypair)
    expect(await found(cluster, digest) == owner, "a keypair lost its credential by being written again")


async def of_concurrent_writers_of_a_digest_one_succeeds(cluster: StoredCluster) -> None:
    """The others get a conflict."""
    owners, digest = [await keypair(cluster) for _ in range(3)], cluster.new("digest")
    puts = [put(cluster, owner.keypair.access_key, digest) for owner in owners]
    refused = [one for one in await asyncio.gather(*puts, return_exceptions=True) if one is not None]
    expect(
        [type(one) for one in refused] == [Conflict] * 2, f"of three keypairs with one digest {refused} were refused"
    )
    expect(await found(cluster, digest) in owners, "the digest has no principal")


CHECKS: tuple[Check, ...] = (
    a_digest_identifies_its_keypair_and_user,
    a_digest_gives_the_current_state_of_its_owner,
    a_new_digest_replaces_the_old_one,
    an_inactive_keypair_is_not_valid,
    a_digest_belongs_to_one_keypair,
    a_missing_keypair_gets_no_credential,
    a_removed_credential_is_not_valid,
    a_credential_is_removed_with_its_keypair,
    an_updated_keypair_keeps_its_credential,
    of_concurrent_writers_of_a_digest_one_succeeds,
)
