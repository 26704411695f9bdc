"""The adapters on Valkey when the server is flushed, killed, hung or gone."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Self

import pytest
from valkey.asyncio import Valkey

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.valkey.agents import ValkeyAgentStates
from sokovan.adapters.valkey.events import ValkeyEventBus
from sokovan.adapters.valkey.hints import ValkeyHints
from sokovan.domain.events import Event
from sokovan.ports.events import BusUnavailable, Delivery, Subscription
from sokovan.testing.clock import outcome, until
from sokovan.testing.contracts.agent_states import AGENT, heartbeat
from sokovan.testing.contracts.events import notices
from sokovan.testing.servers import ValkeyServer

CLOCK = SystemClock()
DEADLINE_S = 0.3
# Longer than any deadline and any pause between attempts, far shorter than a test that hangs.
TIMEOUT_S = 20.0
MARGIN_S = 1.0


class Client:
    """One process that uses all three ports."""

    def __init__(self, url: str) -> None:
        self.bus = ValkeyEventBus(url, deadline_s=DEADLINE_S, redeliver_after_s=1.0)
        self.hints = ValkeyHints(url, deadline_s=DEADLINE_S)
        self.agents = ValkeyAgentStates(url, deadline_s=DEADLINE_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.bus.close()
        await self.hints.close()
        await self.agents.close()


@pytest.fixture(params=[False, True], ids=["forgetful", "appending"])
def server(request: pytest.FixtureRequest) -> Iterator[ValkeyServer]:
    with ValkeyServer(append_only=request.param) as server:
        yield server


@pytest.fixture
def forgetful() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[Client]:
    async with Client(valkey_url) as client:
        yield client


async def now(place: Subscription) -> Delivery:
    return await place.receive(limit=1000, wait_s=0)


async def published(client: Client, events: list[Event]) -> None:
    """Publish as an outbox does: again until it works."""

    async def is_out() -> bool:
        try:
            await client.bus.publish(events)
        except BusUnavailable:
            return False
        return True

    await until(is_out, elapse=CLOCK.sleep, limit_s=TIMEOUT_S)


async def report_of_loss(place: Subscription) -> Delivery:
    """The first delivery that is not empty, which must say `lost`."""
    deliveries: list[Delivery] = []

    async def has_something() -> bool:
        deliveries.append(await place.receive(limit=1000, wait_s=0.1))
        return deliveries[-1] != Delivery()

    await until(has_something, elapse=CLOCK.sleep, limit_s=TIMEOUT_S)
    assert deliveries[-1].lost
    return deliveries[-1]


# ---- events: data that goes while the server stays


async def test_a_flush_between_publishing_and_receiving_is_reported(client: Client, valkey_url: str) -> None:
    place = await client.bus.subscribe(group="schedulers", consumer="m1")
    await client.bus.publish(notices(3))
    await flush(valkey_url)
    assert await now(place) == Delivery(lost=True)
    assert await now(place) == Delivery()


async def test_a_flush_is_reported_even_if_new_events_came_since(client: Client, valkey_url: str) -> None:
    place = await client.bus.subscribe(group="schedulers", consumer="m1")
    await client.bus.publish(notices(3))
    await place.acknowledge(await now(place))
    await flush(valkey_url)
    await client.bus.publish(notices(5, first=3))
    delivery = await now(place)
    assert (delivery.lost, delivery.events) == (True, tuple(notices(5, first=3)))


async def test_a_flush_is_reported_to_each_consumer_of_each_group(client: Client, valkey_url: str) -> None:
    places = [
        await client.bus.subscribe(group=group, consumer=consumer)
        for group in ("g1", "g2")
        for consumer in ("m1", "m2")
    ]
    await flush(valkey_url)
    assert [(await now(place)).lost for place in places] == [True] * 4
    assert [await now(place) for place in places] == [Delivery()] * 4


async def test_a_flush_ends_no_wait_for_ever(client: Client, valkey_url: str) -> None:
    place = await client.bus.subscribe(group="schedulers", consumer="m1")
    waiting = asyncio.create_task(place.receive(limit=10, wait_s=1000))
    await blocked(valkey_url)
    await flush(valkey_url)
    assert (await outcome(waiting, elapse=CLOCK.sleep, limit_s=TIMEOUT_S)).lost


async def test_a_group_that_was_destroyed_is_made_again_and_reported(client: Client, valkey_url: str) -> None:
    place = await client.bus.subscribe(group="schedulers", consumer="m1")
    await client.bus.publish(notices(2))
    async with Valkey.from_url(valkey_url) as raw:
        await raw.xgroup_destroy("sokovan:events", "schedulers")
    delivery = await now(place)
    assert (delivery.lost, delivery.events) == (True, tuple(notices(2)))
    await client.bus.publish(notices(1, first=2))
    following = await now(place)
    assert (following.lost, following.events) == (False, tuple(notices(1, first=2)))


async def test_a_consumer_that_died_leaves_its_events_to_another(client: Client, valkey_url: str) -> None:
    async with AsyncExitStack() as process:
        dying = await process.enter_async_context(Client(valkey_url))
        place = await dying.bus.subscribe(group="schedulers", consumer="m1")
        await client.bus.publish(notices(3))
        assert len((await now(place)).events) == 3
    heir = await client.bus.subscribe(group="schedulers", consumer="m2")
    delivery = await outcome(heir.receive(limit=10, wait_s=TIMEOUT_S), elapse=CLOCK.sleep)
    assert delivery.events == tuple(notices(3))
    assert not delivery.lost


async def test_events_survive_a_consumer_that_gives_up_at_any_moment(client: Client) -> None:
    place = await client.bus.subscribe(group="schedulers", consumer="m1")
    seen: set[int] = set()
    for number in range(60):
        await client.bus.publish(notices(1, first=number))
        receiving = asyncio.create_task(place.receive(limit=10, wait_s=10))
        for _ in range(number % 20):
            await CLOCK.sleep(0)
        receiving.cancel()
        [delivery] = await asyncio.gather(receiving, return_exceptions=True)
        if isinstance(delivery, Delivery):
            seen |= {event.at_ms for event in delivery.events}
            await place.acknowledge(delivery)
    seen |= {event.at_ms for event in (await now(place)).events}
    assert seen == set(range(60))


# ---- events: a server that goes


async def test_a_killed_server_is_survived_and_reported(server: ValkeyServer) -> None:
    async with Client(server.url) as client:
        place = await client.bus.subscribe(group="schedulers", consumer="m1")
        await client.bus.publish(notices(3))
        await asyncio.to_thread(server.kill)
        with pytest.raises(BusUnavailable):
            await client.bus.publish(notices(1))
        assert await place.receive(limit=10, wait_s=0.1) == Delivery()
        await asyncio.to_thread(server.restart)
        await published(client, notices(2, first=3))
        delivery = await report_of_loss(place)
        kept = notices(3) if server.append_only else []
        assert delivery.events == (*kept, *notices(2, first=3))
        await place.acknowledge(delivery)
        await client.bus.publish(notices(1, first=5))
        assert (await now(place)).events == tuple(notices(1, first=5))


async def test_an_unnoticed_restart_is_reported_too(server: ValkeyServer) -> None:
    async with Client(server.url) as client:
        place = await client.bus.subscribe(group="schedulers", consumer="m1")
        assert await now(place) == Delivery()
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.restart)
        await report_of_loss(place)


async def test_a_restart_during_a_wait_is_reported(server: ValkeyServer) -> None:
    async with Client(server.url) as client:
        place = await client.bus.subscribe(group="schedulers", consumer="m1")
        waiting = asyncio.create_task(place.receive(limit=10, wait_s=1000))
        await blocked(server.url)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.restart)
        assert (await outcome(waiting, elapse=CLOCK.sleep, limit_s=TIMEOUT_S)).lost


async def test_a_subscription_made_without_a_server_begins_with_a_loss(forgetful: ValkeyServer) -> None:
    async with Client(forgetful.url) as client:
        await asyncio.to_thread(forgetful.kill)
        place = await client.bus.subscribe(group="schedulers", consumer="m1")
        assert await now(place) == Delivery()
        await asyncio.to_thread(forgetful.restart)
        await published(client, notices(1))
        assert (await report_of_loss(place)).events == tuple(notices(1))


# ---- hints and agent states


async def test_a_hint_is_heard_after_a_restart(server: ValkeyServer) -> None:
    async with Client(server.url) as client, Client(server.url) as other:
        waiting = asyncio.create_task(client.hints.wait(["schedule"], timeout_s=1000))
        await CLOCK.sleep(0)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.restart)

        async def is_heard() -> bool:
            await other.hints.set("schedule")
            return waiting.done()

        await until(is_heard, elapse=CLOCK.sleep, limit_s=TIMEOUT_S)
        assert await waiting


async def test_a_cache_that_was_wiped_is_filled_by_the_next_heartbeat(server: ValkeyServer) -> None:
    async with Client(server.url) as client:
        await client.agents.put(heartbeat(sequence=7), ttl_s=60)
        await asyncio.to_thread(server.kill)
        assert await client.agents.get(AGENT) is None
        await asyncio.to_thread(server.restart)

        async def is_kept() -> bool:
            return await client.agents.put(heartbeat(sequence=8), ttl_s=60)

        await until(is_kept, elapse=CLOCK.sleep, limit_s=TIMEOUT_S)
        assert dict(await client.agents.fresh()) == {AGENT: heartbeat(sequence=8)}


# ---- nothing hangs


async def everything_answers_in_time(client: Client, place: Subscription) -> None:
    """Without a server: no error but that of `publish`, the promised answers, and in time."""

    async def in_time(work: "asyncio.Future[object]", *, wait_s: float = 0.0) -> object:
        async with asyncio.timeout(wait_s + DEADLINE_S + MARGIN_S):
            return await work

    task = asyncio.ensure_future
    with pytest.raises(BusUnavailable):
        await in_time(task(client.bus.publish(notices(1))))
    assert await in_time(task(place.receive(limit=1, wait_s=0.2)), wait_s=0.2) == Delivery()
    await in_time(task(place.acknowledge(Delivery(token=("1-0",)))))
    await in_time(task(client.bus.subscribe(group="more", consumer="m1")))
    await in_time(task(client.hints.set("schedule")))
    assert await in_time(task(client.hints.take("schedule"))) is True
    started_ms = CLOCK.monotonic_ms()
    assert await in_time(task(client.hints.wait(["schedule"], timeout_s=0.2)), wait_s=0.2) is False
    assert CLOCK.monotonic_ms() - started_ms >= 190
    assert await in_time(task(client.agents.put(heartbeat(), ttl_s=1))) is False
    assert await in_time(task(client.agents.get(AGENT))) is None
    assert await in_time(task(client.agents.fresh())) == {}
    await in_time(task(client.agents.drop(AGENT)))


@pytest.mark.parametrize("rounds", [1, 4])
async def test_a_server_that_is_gone_blocks_no_caller(forgetful: ValkeyServer, rounds: int) -> None:
    async with Client(forgetful.url) as client:
        place = await client.bus.subscribe(group="schedulers", consumer="m1")
        await client.agents.put(heartbeat(), ttl_s=60)
        await asyncio.to_thread(forgetful.kill)
        for _ in range(rounds):
            await everything_answers_in_time(client, place)
        async with asyncio.timeout(DEADLINE_S + MARGIN_S):
            await place.close()


async def test_a_server_that_stands_still_blocks_no_caller(forgetful: ValkeyServer) -> None:
    async with Client(forgetful.url) as client:
        place = await client.bus.subscribe(group="schedulers", consumer="m1")
        await client.hints.set("schedule")
        await client.agents.put(heartbeat(), ttl_s=60)
        with forgetful.paused():
            await everything_answers_in_time(client, place)
            await everything_answers_in_time(client, place)
        await report_of_loss(place)


async def test_a_full_server_refuses_to_publish_and_breaks_nothing_else(forgetful: ValkeyServer) -> None:
    async with Client(forgetful.url) as client:
        place = await client.bus.subscribe(group="schedulers", consumer="m1")
        async with Valkey.from_url(forgetful.url) as raw:
            await raw.config_set("maxmemory", 1)
            with pytest.raises(BusUnavailable):
                await client.bus.publish(notices(1))
            await client.hints.set("schedule")
            assert await client.agents.put(heartbeat(), ttl_s=60) is False
            await raw.config_set("maxmemory", 0)
        await published(client, notices(1))
        assert notices(1)[0] in (await next_delivery(place)).events


async def next_delivery(place: Subscription) -> Delivery:
    return await outcome(place.receive(limit=10, wait_s=TIMEOUT_S), elapse=CLOCK.sleep)


async def flush(url: str) -> None:
    async with Valkey.from_url(url) as raw:
        await raw.flushdb()


async def blocked(url: str) -> None:
    """Wait until a client waits in a blocking command."""
    async with Valkey.from_url(url) as raw:

        async def is_blocked() -> bool:
            return bool((await raw.info("clients"))["blocked_clients"])

        await until(is_blocked, elapse=CLOCK.sleep, limit_s=TIMEOUT_S)
