"""Hints on Valkey, beyond the contract: the key is the truth."""

import asyncio

import pytest
from valkey.asyncio import Valkey

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.valkey.hints import ValkeyHints
from sokovan.testing.clock import outcome, until

REAL = SystemClock().sleep


async def test_a_hint_without_its_message_is_found_by_looking(valkey_url: str) -> None:
    hints = ValkeyHints(valkey_url)
    waiting = asyncio.create_task(hints.wait(["schedule"], timeout_s=60))
    await listening(valkey_url, 1)
    async with Valkey.from_url(valkey_url) as client:
        await client.set("sokovan:hint:schedule", 1)
    assert await outcome(waiting, elapse=REAL, limit_s=10)
    await hints.close()


async def test_a_message_ends_the_wait_without_looking_again(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sokovan.adapters.valkey.hints.POLL_S", 1000)
    hints, other = ValkeyHints(valkey_url), ValkeyHints(valkey_url)
    waiting = asyncio.create_task(hints.wait(["schedule"], timeout_s=1000))
    await listening(valkey_url, 1)
    await other.set("schedule")
    assert await outcome(waiting, elapse=REAL, limit_s=10)
    await hints.close()
    await other.close()


async def test_a_hint_set_before_the_channel_is_open_is_not_overlooked(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sokovan.adapters.valkey.hints.POLL_S", 1000)
    other = ValkeyHints(valkey_url)
    for passes in range(30):
        hints = ValkeyHints(valkey_url)
        waiting = asyncio.create_task(hints.wait(["schedule"], timeout_s=1000))
        for _ in range(passes):
            await REAL(0)
        await other.set("schedule")
        assert await outcome(waiting, elapse=REAL, limit_s=10)
        assert await hints.take("schedule")
        await hints.close()
    await other.close()


async def test_a_silent_channel_is_asked_whether_it_is_there(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sokovan.adapters.valkey.hints.PING_AFTER_S", 0.01)
    monkeypatch.setattr("sokovan.adapters.valkey.hints.POLL_S", 1000)
    hints = ValkeyHints(valkey_url)
    waiting = asyncio.create_task(hints.wait(["schedule"], timeout_s=1000))
    async with Valkey.from_url(valkey_url) as client:

        async def is_asked() -> bool:
            return bool((await client.info("commandstats")).get("cmdstat_ping", {}).get("calls", 0) >= 3)

        await until(is_asked, elapse=REAL, limit_s=10)
    await hints.set("schedule")
    assert await outcome(waiting, elapse=REAL, limit_s=10)
    await hints.close()


async def test_a_message_without_its_hint_wakes_no_waiter(valkey_url: str) -> None:
    hints = ValkeyHints(valkey_url)
    waiting = asyncio.create_task(hints.wait(["schedule"], timeout_s=0.5))
    await listening(valkey_url, 1)
    async with Valkey.from_url(valkey_url) as client:
        await client.publish("sokovan:hints", "schedule")
    assert not await outcome(waiting, elapse=REAL, limit_s=10)
    await hints.close()


async def test_closing_ends_the_listening(valkey_url: str) -> None:
    hints = ValkeyHints(valkey_url)
    await hints.wait(["schedule"], timeout_s=0)
    await listening(valkey_url, 1)
    await hints.close()
    await listening(valkey_url, 0)


async def listening(url: str, count: int) -> None:
    async with Valkey.from_url(url) as client:

        async def is_count() -> bool:
            [(_, found)] = await client.pubsub_numsub("sokovan:hints")
            return bool(found == count)

        await until(is_count, elapse=REAL, limit_s=10)
