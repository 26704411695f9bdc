"""Events between processes: they reach each of them, in messages of a bounded size."""

from __future__ import annotations

from sokovan.adapters.broadcast.events import LOST, decoded, payloads
from sokovan.adapters.broadcast.link import PAYLOAD_BYTES_MAX
from sokovan.domain.events import NoticeIssued
from tests.contract.notified_processes import on_postgres


def notice(number: int, text: str = "") -> NoticeIssued:
    return NoticeIssued(at_ms=number, topic="test", about="s1", body={"text": text})


def test_events_share_messages_that_fit() -> None:
    events = [notice(number, "ä" * 500) for number in range(40)]
    messages = list(payloads(events))
    assert 1 < len(messages) < len(events)
    assert max(len(one.encode()) for one in messages) <= PAYLOAD_BYTES_MAX
    assert [event for one in messages for event in decoded(one)] == events


def test_an_event_that_is_too_large_is_announced_as_lost() -> None:
    small, large = notice(1), notice(2, "x" * PAYLOAD_BYTES_MAX)
    messages = list(payloads([small, large, small]))
    assert messages.count(LOST) == 1
    assert [event for one in messages if one != LOST for event in decoded(one)] == [small, small]


def test_a_message_of_another_form_is_no_event() -> None:
    for payload in ("{", "7", '["x"]', '[{"kind": "unknown"}]'):
        assert decoded(payload) == []


async def test_an_event_reaches_every_process(postgres_url: str) -> None:
    async with on_postgres(postgres_url) as processes:
        one, two = await processes.events(), await processes.events()
        readers = [await bus.subscribe(group="api", consumer="c") for bus in (one, two)]
        await one.publish([notice(1), notice(2)])
        for reader in readers:
            delivery = await reader.receive(limit=10, wait_s=60)
            assert (delivery.events, delivery.lost) == ((notice(1), notice(2)), False)
        await one.publish([notice(3, "x" * PAYLOAD_BYTES_MAX)])
        assert (await readers[1].receive(limit=10, wait_s=60)).lost
