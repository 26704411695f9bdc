"""The scripts that make several steps one: what counts as lost, to the entry."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sokovan.adapters.valkey.connection import Argument, Link
from sokovan.adapters.valkey.scripts import KEEP_LATEST, RECEIVE, RELEASE


class Group:
    """A group of the stream `s`, read by script."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.epochs = 0

    async def receive(self, limit: int = 100, *, begins: str = "0", own: str = "", idle_ms: int = 60_000) -> list[Any]:
        self.epochs += 1
        arguments: list[Argument] = ["g", "c1", limit, idle_ms, "0-0", own, begins, f"epoch {self.epochs}"]
        reply: list[Any] = await self.link.run(RECEIVE, ["s", "s:g"], arguments)
        return reply

    async def add(self, *numbers: int) -> None:
        for number in numbers:
            await self.link.call("XADD", "s", f"{number}-0", "event", "x")

    async def read(self) -> tuple[bool, list[int]]:
        _, lost, _, _, new, *_ = await self.receive()
        if new:
            await self.link.call("XACK", "s", "g", *(entry_id for entry_id, _ in new))
        return bool(lost), [int(entry_id.split(b"-")[0]) for entry_id, _ in new]


@pytest.fixture
async def group(valkey_url: str) -> AsyncIterator[Group]:
    link = Link(valkey_url)
    made = Group(link)
    await made.receive(0, begins="$")
    yield made
    await link.close()


async def test_trimming_what_was_read_loses_nothing(group: Group) -> None:
    await group.add(1, 2, 3)
    assert await group.read() == (False, [1, 2, 3])
    await group.add(4)
    await group.link.call("XTRIM", "s", "MAXLEN", 1)
    assert await group.read() == (False, [4])
    await group.link.call("XTRIM", "s", "MAXLEN", 0)
    assert await group.read() == (False, [])
    await group.add(5, 6)
    assert await group.read() == (False, [5, 6])


async def test_trimming_one_unread_entry_is_a_loss_reported_once(group: Group) -> None:
    await group.add(1, 2, 3)
    await group.link.call("XTRIM", "s", "MAXLEN", 2)
    assert await group.read() == (True, [2, 3])
    await group.add(4)
    assert await group.read() == (False, [4])


async def test_trimming_everything_unread_is_a_loss(group: Group) -> None:
    await group.add(1, 2, 3)
    await group.link.call("XTRIM", "s", "MAXLEN", 0)
    assert await group.read() == (True, [])
    await group.add(4)
    assert await group.read() == (False, [4])


async def test_a_stream_that_was_deleted_and_filled_again_is_a_loss(group: Group) -> None:
    await group.add(1, 2)
    await group.read()
    await group.link.call("DEL", "s")
    await group.add(3, 4, 5)
    assert await group.read() == (True, [3, 4, 5])
    assert await group.read() == (False, [])


async def test_a_group_that_was_destroyed_is_a_loss_and_gets_what_is_left(group: Group) -> None:
    await group.add(1, 2)
    await group.read()
    await group.link.call("XGROUP", "DESTROY", "s", "g")
    assert await group.read() == (True, [1, 2])
    assert await group.read() == (False, [])


async def test_a_count_that_is_gone_is_a_loss(group: Group) -> None:
    await group.add(1, 2)
    await group.read()
    await group.link.call("DEL", "s:g")
    assert await group.read() == (True, [1, 2])
    assert await group.read() == (False, [])


async def test_a_loss_begins_a_new_epoch_and_nothing_else_does(group: Group) -> None:
    first = (await group.receive())[0]
    await group.add(1, 2)
    assert (await group.receive())[0] == first
    await group.add(3)
    await group.link.call("XTRIM", "s", "MAXLEN", 0)
    second = (await group.receive())[0]
    assert second != first
    assert (await group.receive())[0] == second


async def test_a_group_that_is_joined_late_begins_at_the_end(group: Group) -> None:
    await group.add(1, 2)
    await group.link.call("XGROUP", "DESTROY", "s", "g")
    assert (await group.receive(0, begins="$"))[1] == 0
    await group.add(3)
    assert await group.read() == (False, [3])


async def test_what_was_held_and_trimmed_is_a_loss(group: Group) -> None:
    await group.add(1, 2)
    await group.receive()
    await group.link.call("XTRIM", "s", "MAXLEN", 0)
    _, lost, again, *_ = await group.receive(idle_ms=0)
    assert (lost, again) == (1, [])


async def test_unacknowledged_entries_are_read_again_from_a_place(group: Group) -> None:
    await group.add(1, 2, 3)
    await group.receive()
    own = (await group.receive(2, own="0"))[3]
    assert [entry_id for entry_id, _ in own] == [b"1-0", b"2-0"]
    assert [entry_id for entry_id, _ in (await group.receive(2, own="2-0"))[3]] == [b"3-0"]


async def test_the_limit_holds_for_old_and_new_together(group: Group) -> None:
    await group.add(1, 2)
    await group.receive(2)
    await group.add(3, 4, 5)
    _, _, again, own, new, *_ = await group.receive(4, idle_ms=0)
    assert [len(again), len(own), len(new)] == [2, 0, 2]


async def test_a_release_makes_entries_old_and_removes_who_holds_none(group: Group) -> None:
    assert await group.link.run(RELEASE, ["s"], ["g", "c1"]) == 0
    await group.add(*range(1, 2501))
    await group.receive(2500)
    assert await group.link.run(RELEASE, ["s"], ["g", "c1"]) == 2500
    idle = await group.link.call("XPENDING", "s", "g", "IDLE", 3_600_000, "-", "+", 3000)
    assert len(idle) == 2500
    await group.link.call("XACK", "s", "g", *(f"{number}-0" for number in range(1, 2501)))
    await group.link.run(RELEASE, ["s"], ["g", "c1"])
    assert await group.link.call("XINFO", "CONSUMERS", "s", "g") == []


async def test_a_release_of_nothing_is_no_error(group: Group) -> None:
    assert await group.link.run(RELEASE, ["s"], ["no-such-group", "c1"]) == 0
    assert await group.link.run(RELEASE, ["no-such-stream"], ["g", "c1"]) == 0


async def test_only_an_earlier_moment_is_refused(group: Group) -> None:
    for moment, kept in (("0002", 1), ("0001", 0), ("0002", 1), ("0010", 1), ("0009", 0)):
        assert await group.link.run(KEEP_LATEST, ["a"], [moment, "state", 60_000]) == kept
    assert await group.link.call("GET", "a") == b"0010state"
