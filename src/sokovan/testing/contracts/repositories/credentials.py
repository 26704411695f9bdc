"""The promises of `ports.repositories.credentials.Credentials`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from sokovan.domain.errors import Conflict, ObjectNotFound
from sokovan.domain.ids import AccessKey
from sokovan.domain.tenancy import Domain, Keypair, Role, User
from sokovan.ports.repositories.credentials import Principal
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import StoredCluster, refusal

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]


async def keypair(cluster: StoredCluster, *, role: Role = Role.USER, active: bool = True) -> Principal:
    """A new user with a keypair, and no credential yet."""
    domain = Domain(cluster.new("d"))
    user = User(cluster.new("u"), domain.name, role=role)
    pair = Keypair(AccessKey(cluster.new("k")), user.name, active=active)
    await cluster.put(domain, user, pair)
    return Principal(pair, user)


async def put(cluster: StoredCluster, access_key: str, digest: str) -> None:
    """Let a digest stand for a keypair."""
    await cluster.store.run(lambda unit: unit.credentials.put(AccessKey(access_key), digest))


async def found(cluster: StoredCluster, digest: str) -> Principal | None:
    """Whose digest it is."""
    return await cluster.store.read(lambda unit: unit.credentials.find(digest))


async def a_digest_leads_to_its_keypair_and_user(cluster: StoredCluster) -> None:
    """With the user's role; another digest leads to nobody."""
    for role in Role:
        owner, digest = await keypair(cluster, role=role), cluster.new("digest")
        expect(await found(cluster, digest) is None, "a digest that nobody stored opens something")
        await put(cluster, owner.keypair.access_key, digest)
        expect(await found(cluster, digest) == owner, "a digest does not lead to its owner")
        for other in (digest[:-1], digest.lower(), digest + " ", ""):
            expect(await found(cluster, other) is None, f"{other!r} opens what {digest!r} should")


async def a_digest_leads_to_what_its_owner_is_now(cluster: StoredCluster) -> None:
    """A role that was taken back is not had any more."""
    owner, digest = await keypair(cluster, role=Role.ADMIN), cluster.new("digest")
    await put(cluster, owner.keypair.access_key, digest)
    demoted = User(owner.user.name, owner.user.domain, role=Role.USER)
    await cluster.put(demoted)
    expect(await found(cluster, digest) == Principal(owner.keypair, demoted), "a digest leads to what the user was")


async def a_new_digest_takes_the_place_of_the_old(cluster: StoredCluster) -> None:
    """The old one opens nothing any more; the same again changes nothing."""
    owner, old, new = await keypair(cluster), cluster.new("digest"), cluster.new("digest")
    for digest in (old, new, new):
        await put(cluster, owner.keypair.access_key, digest)
    expect(await found(cluster, old) is None, "the digest before still opens something")
    expect(await found(cluster, new) == owner, "the new digest opens nothing")


async def a_keypair_that_is_not_active_opens_nothing(cluster: StoredCluster) -> None:
    """Until it is active again."""
    owner, digest = await keypair(cluster, active=False), cluster.new("digest")
    await put(cluster, owner.keypair.access_key, digest)
    expect(await found(cluster, digest) is None, "a keypair that is not active opens something")
    active = Keypair(owner.keypair.access_key, owner.user.name)
    await cluster.put(active)
    expect(await found(cluster, digest) == Principal(active, owner.user), "a keypair that is active opens nothing")


async def a_digest_stands_for_one_keypair(cluster: StoredCluster) -> None:
    """A second one is refused without telling the digest; the first keeps it."""
    first, second, digest = await keypair(cluster), await keypair(cluster), cluster.new("digest")
    await put(cluster, first.keypair.access_key, digest)
    error = await refusal(put(cluster, second.keypair.access_key, digest), Conflict)
    expect(digest not in f"{error}{error.__cause__}{error.hint}", "a refusal tells the digest")
    expect(await found(cluster, digest) == first, "a digest went to another keypair")


async def what_is_not_there_gets_no_credential(cluster: StoredCluster) -> None:
    """NotFound."""
    for name in (cluster.new("k"), "", "a b", "x\0y"):
        error = await refusal(put(cluster, name, cluster.new("digest")), ObjectNotFound)
        expect(error.what == "keypair", f"there is no {error.what}, says the refusal")


async def what_is_removed_opens_nothing(cluster: StoredCluster) -> None:
    """The others do; unknown ones are passed over; the digest is free again."""
    gone, stays = await keypair(cluster), await keypair(cluster)
    digests = [cluster.new("digest") for _ in range(2)]
    for owner, digest in zip((gone, stays), digests, strict=True):
        await put(cluster, owner.keypair.access_key, digest)
    missing = AccessKey(cluster.new("k"))
    await cluster.store.run(lambda unit: unit.credentials.remove([gone.keypair.access_key, missing]))
    expect(await found(cluster, digests[0]) is None, "a removed credential opens something")
    expect(await found(cluster, digests[1]) == stays, "another one was removed")
    await put(cluster, stays.keypair.access_key, digests[0])
    expect(await found(cluster, digests[0]) == stays, "the digest of a removed credential is not free")


async def a_credential_goes_with_its_keypair(cluster: StoredCluster) -> None:
    """And does not come back with a keypair of the same name."""
    owner, digest = await keypair(cluster), cluster.new("digest")
    await put(cluster, owner.keypair.access_key, digest)
    await cluster.store.run(lambda unit: unit.catalog.remove(Keypair, owner.keypair.access_key))
    expect(await found(cluster, digest) is None, "a keypair that is not there opens something")
    await cluster.put(owner.keypair)
    expect(await found(cluster, digest) is None, "a new keypair has the credential of an old one")


async def a_keypair_that_is_written_again_keeps_its_credential(cluster: StoredCluster) -> None:
    """Like one whose user is."""
    owner, digest = await keypair(cluster), cluster.new("digest")
    await put(cluster, owner.keypair.access_key, digest)
    await cluster.put(owner.user, owner.keypair)
    expect(await found(cluster, digest) == owner, "a keypair lost its credential by being written again")


async def of_two_who_want_a_digest_at_once_one_gets_it(cluster: StoredCluster) -> None:
    """The other is told of the conflict."""
    owners, digest = [await keypair(cluster) for _ in range(3)], cluster.new("digest")
    puts = [put(cluster, owner.keypair.access_key, digest) for owner in owners]
    refused = [one for one in await asyncio.gather(*puts, return_exceptions=True) if one is not None]
    expect(
        [type(one) for one in refused] == [Conflict] * 2, f"of three keypairs with one digest {refused} were refused"
    )
    expect(await found(cluster, digest) in owners, "the digest is nobody's")


CHECKS: tuple[Check, ...] = (
    a_digest_leads_to_its_keypair_and_user,
    a_digest_leads_to_what_its_owner_is_now,
    a_new_digest_takes_the_place_of_the_old,
    a_keypair_that_is_not_active_opens_nothing,
    a_digest_stands_for_one_keypair,
    what_is_not_there_gets_no_credential,
    what_is_removed_opens_nothing,
    a_credential_goes_with_its_keypair,
    a_keypair_that_is_written_again_keeps_its_credential,
    of_two_who_want_a_digest_at_once_one_gets_it,
)
