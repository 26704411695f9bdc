"""One connection: every call ends in time, and no reply is taken for another's."""

import asyncio
import contextlib

import pytest

from sokovan.adapters.broadcast.valkey_connection import RETRY_S_MAX, RETRY_S_MIN, ValkeyConnection
from sokovan.adapters.local.clock import SystemClock
from sokovan.ports.events import BusUnavailable
from sokovan.testing.clock import outcome, until
from sokovan.testing.servers import ValkeyServer
from sokovan.testing.servers.process import free_port

REAL = SystemClock().sleep


async def test_replies_come_in_the_order_of_the_commands(valkey_url: str) -> None:
    link = ValkeyConnection(valkey_url)
    assert await link.call_all([("SET", "name", "value"), ("GET", "name"), ("EXISTS", "none")]) == [b"OK", b"value", 0]
    await link.close()


async def test_calls_at_the_same_time_each_get_their_own_reply(valkey_url: str) -> None:
    link = ValkeyConnection(valkey_url)
    replies = await asyncio.gather(*(link.call("ECHO", str(number)) for number in range(50)))
    assert replies == [str(number).encode() for number in range(50)]
    await link.close()


async def test_a_call_that_is_given_up_does_not_leave_its_reply_to_the_next(valkey_url: str) -> None:
    link = ValkeyConnection(valkey_url)
    for passes in range(30):
        given_up = asyncio.create_task(link.call("ECHO", "old"))
        for _ in range(passes):
            await REAL(0)
        given_up.cancel()
        assert await link.call("ECHO", f"new {passes}") == f"new {passes}".encode()
    await link.close()


async def test_a_refused_command_says_its_kind_and_quotes_nothing(valkey_url: str) -> None:
    link = ValkeyConnection(valkey_url)
    await link.call("SET", "private-name", "value")
    with pytest.raises(BusUnavailable, match="WRONGTYPE") as refused:
        await link.call("LPUSH", "private-name", "x")
    assert "private-name" not in str(refused.value)
    assert await link.call("ECHO", "still there") == b"still there"
    await link.close()


async def test_a_refusal_among_several_commands_leaves_the_connection_in_step(valkey_url: str) -> None:
    link = ValkeyConnection(valkey_url)
    with pytest.raises(BusUnavailable):
        await link.call_all([("SET", "name", "value"), ("LPUSH", "name", "x"), ("GET", "name")])
    assert await link.call("ECHO", "next") == b"next"
    await link.close()


async def test_a_server_that_is_not_there_fails_at_once_and_then_without_trying() -> None:
    link = ValkeyConnection(f"valkey://127.0.0.1:{free_port()}/0")
    with pytest.raises(BusUnavailable, match="does not respond"):
        await link.call("PING")
    assert 0 < link.retry_in_s <= RETRY_S_MIN
    with pytest.raises(BusUnavailable, match="retrying soon"):
        await link.call("PING")


async def test_the_pause_between_attempts_grows_to_its_bound_and_no_further() -> None:
    link = ValkeyConnection(f"valkey://127.0.0.1:{free_port()}/0")
    pauses: list[float] = []
    for _ in range(6):
        await REAL(link.retry_in_s)
        with pytest.raises(BusUnavailable):
            await link.call("PING")
        pauses.append(link.retry_in_s)
    assert pauses[0] <= RETRY_S_MIN
    assert RETRY_S_MAX / 2 < pauses[-1] <= RETRY_S_MAX


@pytest.mark.slow
async def test_a_server_that_stands_still_costs_no_more_than_the_deadline() -> None:
    with ValkeyServer() as server:
        link = ValkeyConnection(server.url, deadline_s=0.2)

        async def echoes() -> bool:
            # A busy machine may take longer for a reply.
            with contextlib.suppress(BusUnavailable):
                return bool(await link.call("ECHO", "here") == b"here")
            return False

        await until(echoes, elapse=REAL)
        with server.paused():
            with pytest.raises(BusUnavailable, match="TimeoutError"):
                await outcome(link.call("PING"), elapse=REAL)
            await REAL(link.retry_in_s)
            # A connection is taken by the operating system, so the first reply is what stays away.
            with pytest.raises(BusUnavailable):
                await outcome(link.call("PING"), elapse=REAL)
        await until(echoes, elapse=REAL)
        await link.close()


async def test_a_closed_link_answers_no_more(valkey_url: str) -> None:
    link = ValkeyConnection(valkey_url)
    await link.call("PING")
    await link.close()
    await link.close()
    with pytest.raises(BusUnavailable, match="closed"):
        await link.call("PING")


async def test_closing_at_any_moment_of_a_call_leaves_no_connection(valkey_url: str) -> None:
    for passes in range(30):
        link = ValkeyConnection(valkey_url)
        calling = asyncio.create_task(link.call("PING"))
        for _ in range(passes):
            await REAL(0)
        await link.close()
        replies: list[object] = await asyncio.gather(calling, return_exceptions=True)
        assert replies == [b"PONG"] or isinstance(replies[0], BusUnavailable)


async def test_a_wrong_password_is_an_unavailable_bus(valkey_server: ValkeyServer) -> None:
    link = ValkeyConnection(valkey_server.url.replace("valkey://", "valkey://nobody:wrong@"))
    with pytest.raises(BusUnavailable):
        await link.call("PING")
    await link.close()


async def test_messages_of_a_channel_are_pushed(valkey_url: str) -> None:
    ear, mouth = ValkeyConnection(valkey_url), ValkeyConnection(valkey_url)
    with pytest.raises(BusUnavailable):
        await ear.pushed(wait_s=0)
    await ear.call("SUBSCRIBE", "channel")
    assert await ear.pushed(wait_s=0.01) is None
    await mouth.call("PUBLISH", "channel", "hello")
    assert await ear.pushed(wait_s=10) == [b"message", b"channel", b"hello"]
    await ear.close()
    await mouth.close()
