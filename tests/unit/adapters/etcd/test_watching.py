"""Watching a configuration: after each wake-up, everything is read again."""

from __future__ import annotations

import asyncio

import pytest

from sokovan.adapters.etcd import watching
from sokovan.adapters.etcd.keys import Pair, Stored
from sokovan.adapters.etcd.watching import PAUSE_MAX_S, EtcdWatch
from sokovan.ports.config import ConfigTree, ConfigUnavailable, UnreadableConfig
from tests.unit.adapters.local.quick_clock import QuickClock


class Script:
    """A source that answers from a list; the last answer is repeated."""

    def __init__(self, *states: Stored | Exception, waits: bool = False) -> None:
        self.states, self.waits = list(states), waits
        self.asked_after: list[int] = []

    async def stored(self) -> Stored:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return state

    async def changed_after(self, revision: int) -> None:
        self.asked_after.append(revision)
        if self.waits:
            await asyncio.Event().wait()


def state(value: bytes, at: int = 1) -> Stored:
    return Stored((Pair("a", value, at),), at)


def watch(source: Script, *, seen: str = "", clock: QuickClock | None = None) -> EtcdWatch:
    return EtcdWatch(source, clock=clock or QuickClock(), closed=asyncio.Event(), seen=seen)


async def following(watch: EtcdWatch) -> ConfigTree | UnreadableConfig:
    async with asyncio.timeout(60):
        return await anext(watch)


async def test_an_unseen_state_is_returned_at_once() -> None:
    source = Script(state(b"1"))
    assert await following(watch(source)) == state(b"1").tree()
    assert source.asked_after == []


async def test_a_seen_state_is_watched_from_its_revision() -> None:
    source = Script(state(b"1", at=7), state(b"2", at=8))
    assert await following(watch(source, seen=state(b"1", at=7).revision)) == state(b"2", at=8).tree()
    assert source.asked_after == [7]


async def test_an_unavailable_server_is_retried_with_backoff() -> None:
    clock = QuickClock()
    source = Script(*[ConfigUnavailable("away") for _ in range(9)], state(b"1"))
    assert await following(watch(source, clock=clock)) == state(b"1").tree()
    assert clock.waits == sorted(clock.waits)
    assert len(clock.waits) == 9
    assert clock.waits[-1] == PAUSE_MAX_S


async def test_a_stream_that_ends_at_once_does_not_make_it_ask_in_a_circle() -> None:
    clock = QuickClock()
    source = Script(*[state(b"1") for _ in range(6)], state(b"2"))
    await following(watch(source, seen=state(b"1").revision, clock=clock))
    assert len(clock.waits) == 6
    assert clock.waits == sorted(clock.waits)


async def test_a_quiet_stream_is_not_trusted_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "STREAM_TIMEOUT_S", 0.01)
    source = Script(state(b"1"), state(b"1"), state(b"2"), waits=True)
    assert await following(watch(source, seen=state(b"1").revision)) == state(b"2").tree()


async def test_an_unreadable_state_is_returned_once_and_the_watch_continues() -> None:
    watching = watch(Script(state(b"{"), state(b"{"), state(b"2")))
    assert isinstance(await following(watching), UnreadableConfig)
    assert await following(watching) == state(b"2").tree()


async def test_a_wait_that_was_given_up_can_be_taken_up_again() -> None:
    source = Script(state(b"1"), waits=True)
    watching = watch(source, seen=state(b"1").revision)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await anext(watching)
    source.states = [state(b"2")]
    assert await following(watching) == state(b"2").tree()


async def test_closing_ends_the_watch() -> None:
    closed = asyncio.Event()
    watching = EtcdWatch(Script(state(b"1"), waits=True), clock=QuickClock(), closed=closed, seen=state(b"1").revision)
    waiting = asyncio.ensure_future(anext(watching, "over"))
    closed.set()
    async with asyncio.timeout(60):
        assert await waiting == "over"
        assert await anext(watching, "over") == "over"
