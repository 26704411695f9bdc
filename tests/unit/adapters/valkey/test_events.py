"""The event bus on Valkey, beyond the contract: what the stream holds."""

import asyncio

import pytest
from valkey.asyncio import Valkey

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.valkey.events import FIELD, ValkeyEventBus, decoded, encoded
from sokovan.ports.events import BusUnavailable, Delivery
from sokovan.testing.contracts.events import notices


def test_an_event_is_read_as_it_was_written() -> None:
    [event] = notices(1)
    assert decoded(encoded(event)) == event


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"7", b"\xff", b'{"event": "Unheard"}', b'{"event": "NoticeIssued", "at_ms": "soon"}']
)
def test_what_is_no_event_is_read_as_none(body: bytes) -> None:
    assert decoded(body) is None


async def test_the_stream_stays_near_its_bound(valkey_url: str) -> None:
    bus = ValkeyEventBus(valkey_url, backlog_max=100)
    await bus.publish(notices(5000))
    async with Valkey.from_url(valkey_url) as client:
        assert await client.xlen("sokovan:events") <= 300
    await bus.close()


async def test_an_entry_that_cannot_be_read_is_dropped_and_counts_as_lost(valkey_url: str) -> None:
    bus = ValkeyEventBus(valkey_url)
    place = await bus.subscribe(group="schedulers", consumer="m1")
    async with Valkey.from_url(valkey_url) as client:
        await client.xadd("sokovan:events", {FIELD: b"no event"})
        await client.xadd("sokovan:events", {"strange": "entry"})
        await bus.publish(notices(1))
        delivery = await place.receive(limit=10, wait_s=0)
        assert (delivery.events, delivery.lost) == (tuple(notices(1)), True)
        pending = await client.xpending("sokovan:events", "schedulers")
        assert pending["pending"] == 1
    await place.acknowledge(delivery)
    assert await place.receive(limit=10, wait_s=0) == Delivery()
    await bus.close()


async def test_prefixes_keep_two_installations_apart(valkey_url: str) -> None:
    one, other = ValkeyEventBus(valkey_url, prefix="one"), ValkeyEventBus(valkey_url, prefix="other")
    place = await other.subscribe(group="schedulers", consumer="m1")
    await one.publish(notices(1))
    assert await place.receive(limit=10, wait_s=0) == Delivery()
    await one.close()
    await other.close()


async def test_an_event_ends_the_wait_without_looking_again(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sokovan.adapters.valkey.events.POLL_S", 1000)
    bus = ValkeyEventBus(valkey_url)
    place = await bus.subscribe(group="schedulers", consumer="m1")
    waiting = asyncio.create_task(place.receive(limit=1, wait_s=1000))
    await SystemClock().sleep(0)
    await bus.publish(notices(1))
    async with asyncio.timeout(10):
        assert (await waiting).events == tuple(notices(1))
    await bus.close()


async def test_a_server_that_fell_back_to_an_earlier_state_is_noticed(valkey_url: str) -> None:
    bus = ValkeyEventBus(valkey_url)
    place = await bus.subscribe(group="schedulers", consumer="m1")
    keys = ["sokovan:events", "sokovan:events:schedulers"]
    async with Valkey.from_url(valkey_url) as client:
        earlier = {key: await client.dump(key) for key in keys}
        await bus.publish(notices(3))
        await place.acknowledge(await place.receive(limit=10, wait_s=0))
        for key, value in earlier.items():
            await client.restore(key, 0, value, replace=True)
    assert await place.receive(limit=10, wait_s=0) == Delivery(lost=True)
    await bus.close()


async def test_asking_for_no_event_does_not_wait(valkey_url: str) -> None:
    bus = ValkeyEventBus(valkey_url)
    place = await bus.subscribe(group="schedulers", consumer="m1")
    await bus.publish(notices(1))
    async with asyncio.timeout(5):
        assert await place.receive(limit=0, wait_s=1000) == Delivery()
    await bus.close()


async def test_closing_the_bus_ends_a_wait_in_time_and_later_publishing(valkey_url: str) -> None:
    bus = ValkeyEventBus(valkey_url)
    place = await bus.subscribe(group="schedulers", consumer="m1")
    waiting = asyncio.create_task(place.receive(limit=1, wait_s=0.3))
    await bus.publish([])
    await bus.close()
    async with asyncio.timeout(5):
        assert await waiting == Delivery()
    with pytest.raises(BusUnavailable):
        await bus.publish(notices(1))


async def test_consumers_that_left_long_ago_are_cleared_away_by_the_next_one(valkey_url: str) -> None:
    bus = ValkeyEventBus(valkey_url)
    async with Valkey.from_url(valkey_url) as client:
        for name in ("m1", "m2"):
            place = await bus.subscribe(group="schedulers", consumer=name)
            await place.receive(limit=1, wait_s=0)
            await place.close()
        assert await client.xinfo_consumers("sokovan:events", "schedulers") == []
    await bus.close()
