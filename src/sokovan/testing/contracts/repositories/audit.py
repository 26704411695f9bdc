"""Contract of `ports.repositories.audit.AuditTrail`.

A check begins with an empty trail, and may tamper with it in SQL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import sqlalchemy as sa

from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.contracts import expect
from sokovan.testing.stored_cluster import StoredCluster, refusal

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]


def entry(number: int) -> AuditEntry:
    """A distinct entry."""
    return AuditEntry(who="u1", action="session.stop", target=f"s{number}", outcome="done")


async def appended(cluster: StoredCluster, *entries: AuditEntry) -> list[int]:
    """Append entries one after the other; returns their numbers."""
    return [await append(cluster, one) for one in entries]


async def append(cluster: StoredCluster, one: AuditEntry) -> int:
    """Append an entry; returns its number."""
    return await cluster.store.run(lambda unit: unit.audit.append(one))


async def _first_broken(cluster: StoredCluster) -> int | None:
    """The first broken entry that the trail reports."""
    return await cluster.store.read(lambda unit: unit.audit.first_broken())


async def page(
    cluster: StoredCluster, *, limit: int = 99, after: int = 0, newest: bool = False
) -> Sequence[tuple[int, int, AuditEntry]]:
    """Some entries."""
    return await cluster.store.read(lambda unit: unit.audit.page(limit=limit, after=after, newest=newest))


async def tampered(cluster: StoredCluster, *statements: str) -> None:
    """Change the table directly."""
    async with cluster.store.database.writing() as connection:
        for statement in statements:
            await connection.execute(sa.text(statement))
        await connection.commit()


async def an_entry_is_read_as_it_was_appended(cluster: StoredCluster) -> None:
    """All fields, with its number and the store's time."""
    full = AuditEntry("u1", "session.stop", "s1", "refused: forbidden", "r-1", {"näme": "' \" \\ %s :x", "a": ""})
    expect(await appended(cluster, full, entry(2)) == [1, 2], "entries are not numbered from 1")
    [(number, at_ms, found), (_, later, _)] = await page(cluster)
    expect((number, found) == (1, full), "an entry was changed in the store")
    expect(0 < at_ms <= later, "entries do not carry the time")


async def entries_come_oldest_first_and_in_pages(cluster: StoredCluster) -> None:
    """At most `limit`, and only those after a number."""
    await appended(cluster, *[entry(number) for number in range(1, 6)])
    expect([one.target for _, _, one in await page(cluster)] == ["s1", "s2", "s3", "s4", "s5"], "the order is wrong")
    expect([number for number, _, _ in await page(cluster, limit=2, after=2)] == [3, 4], "the page is wrong")
    expect(not await page(cluster, after=5), "there is something after the last entry")


async def entries_come_newest_first_on_request(cluster: StoredCluster) -> None:
    """From the last one on, or from those before a number."""
    await appended(cluster, *[entry(number) for number in range(1, 6)])
    expect([number for number, _, _ in await page(cluster, limit=2, newest=True)] == [5, 4], "not from the last one on")
    expect([number for number, _, _ in await page(cluster, after=3, newest=True)] == [2, 1], "not before a number")
    expect(not await page(cluster, after=1, newest=True), "there is something before the first entry")


async def an_unchanged_trail_is_valid(cluster: StoredCluster) -> None:
    """Empty, short, and longer than one read."""
    expect(await _first_broken(cluster) is None, "an empty trail is broken")

    async def many(unit: UnitOfWork) -> None:
        for number in range(1, 1203):
            await unit.audit.append(entry(number))

    await cluster.store.run(many)
    expect(await _first_broken(cluster) is None, "an untouched trail is broken")
    await tampered(cluster, "UPDATE audit_log SET at_ms = at_ms + 1 WHERE sequence = 1100")
    expect(await _first_broken(cluster) == 1100, "tampering far behind is not seen")


async def concurrent_entries_form_one_chain(cluster: StoredCluster) -> None:
    """Each has its own number, without gaps."""
    numbers = await asyncio.gather(*(appended(cluster, entry(number)) for number in range(12)))
    expect(sorted(one for [one] in numbers) == list(range(1, 13)), f"the numbers are {numbers}")
    expect(await _first_broken(cluster) is None, "the chain is broken")


async def an_entry_is_rolled_back_with_its_unit_of_work(cluster: StoredCluster) -> None:
    """It leaves neither entry nor gap."""

    async def work(unit: UnitOfWork) -> None:
        await unit.audit.append(entry(1))
        raise LookupError

    await refusal(cluster.store.run(work), LookupError)
    expect(await appended(cluster, entry(2)) == [1], "an entry that was rolled back left a gap")


async def a_changed_entry_is_detected(cluster: StoredCluster) -> None:
    """Content, time, digest or previous digest."""
    await appended(cluster, *[entry(number) for number in range(1, 5)])
    changes = {
        "entry": "replace(entry, 's3', 's9')",
        "at_ms": "at_ms + 1",
        "digest": "replace(digest, substr(digest, 1, 1), 'x')",
        "previous": "replace(previous, substr(previous, 1, 1), 'x')",
    }
    for column, value in changes.items():
        await tampered(cluster, f"UPDATE audit_log SET {column} = {value} WHERE sequence = 3")  # noqa: S608  # only constants
        expect(await _first_broken(cluster) == 3, f"a changed {column} is not found")
        await tampered(cluster, "DELETE FROM audit_log")
        await appended(cluster, *[entry(number) for number in range(1, 5)])
    expect(await _first_broken(cluster) is None, "the check itself is broken")


async def a_rewritten_entry_is_detected(cluster: StoredCluster) -> None:
    """Even with a valid digest: the next entry does not match."""
    await appended(cluster, *[entry(number) for number in range(1, 5)])
    await tampered(cluster, "CREATE TABLE rest AS SELECT * FROM audit_log WHERE sequence > 2")
    await tampered(cluster, "DELETE FROM audit_log WHERE sequence >= 2")
    await appended(cluster, entry(99))
    await tampered(cluster, "INSERT INTO audit_log SELECT * FROM rest")
    expect(await _first_broken(cluster) == 3, "a rewritten entry is not detected")


async def a_removed_entry_is_detected(cluster: StoredCluster) -> None:
    """The first one or one in the middle, even after renumbering."""
    await appended(cluster, *[entry(number) for number in range(1, 6)])
    await tampered(cluster, "DELETE FROM audit_log WHERE sequence = 3")
    expect(await _first_broken(cluster) == 3, "a removed entry is not found")
    await tampered(cluster, *[f"UPDATE audit_log SET sequence = {n - 1} WHERE sequence = {n}" for n in (4, 5)])  # noqa: S608  # only constants
    expect(await _first_broken(cluster) == 3, "a removed entry is not found after renumbering")
    await tampered(cluster, "DELETE FROM audit_log WHERE sequence = 1")
    expect(await _first_broken(cluster) == 1, "a removed beginning is not found")


async def exchanged_entries_are_detected(cluster: StoredCluster) -> None:
    """Two entries with swapped positions."""
    await appended(cluster, *[entry(number) for number in range(1, 5)])
    swap = [(2, 99), (3, 2), (99, 3)]
    await tampered(cluster, *[f"UPDATE audit_log SET sequence = {new} WHERE sequence = {old}" for old, new in swap])  # noqa: S608  # only constants
    expect(await _first_broken(cluster) == 2, "exchanged entries are not found")


CHECKS: tuple[Check, ...] = (
    an_entry_is_read_as_it_was_appended,
    entries_come_oldest_first_and_in_pages,
    entries_come_newest_first_on_request,
    an_unchanged_trail_is_valid,
    concurrent_entries_form_one_chain,
    an_entry_is_rolled_back_with_its_unit_of_work,
    a_changed_entry_is_detected,
    a_rewritten_entry_is_detected,
    a_removed_entry_is_detected,
    exchanged_entries_are_detected,
)
