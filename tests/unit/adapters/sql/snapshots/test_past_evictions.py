"""Past evictions protect queues that gave, and users who lost much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

from sokovan.adapters.sql.schema.eviction_codec import evictions_text
from sokovan.adapters.sql.snapshots.past_evictions import PastEvictions, overdue_ms
from sokovan.domain.cluster.agent import FOREVER_MS
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.eviction import EvictionReceipt
from tests.unit.domain.lifecycle.test_eviction import receipt

HOUR_MS = 3_600_000


def put(past: PastEvictions, *receipts: EvictionReceipt, name: str = "one", ended: bool = False) -> None:
    """The session of bob in the queue research, with these receipts."""
    texts: Sequence[EvictionReceipt] = receipts
    row = SimpleNamespace(
        session_id=name, scaling_group="pool", queue="research", user="bob", evictions=evictions_text(texts)
    )
    past.put(row, ended=ended)


def test_a_queue_gave_when_it_was_last_reclaimed_from() -> None:
    past = PastEvictions()
    reclaimed = [replace(receipt(at, number), action="reclaim") for number, at in enumerate((5, 9), 1)]
    put(past, *reclaimed, receipt(12, 3))
    assert past.of("pool", 20) == ({"research": 9}, {"bob": 6})


def test_evictions_of_an_earlier_hour_or_of_another_group_do_not_count() -> None:
    past = PastEvictions()
    put(past, receipt(0), receipt(HOUR_MS, 2))
    assert past.of("pool", HOUR_MS + 1) == ({}, {"bob": 2})
    assert past.of("other", HOUR_MS + 1) == ({}, {})
    put(past)
    assert past.of("pool", HOUR_MS + 1) == ({}, {})


def test_a_session_that_has_ended_counts_for_an_hour_after_its_eviction() -> None:
    past = PastEvictions()
    put(past, replace(receipt(1000), action="reclaim"), ended=True)
    assert past.of("pool", 1000 + HOUR_MS - 1) == ({"research": 1000}, {"bob": 2})
    assert past.of("pool", 1000 + HOUR_MS) == ({}, {})


def test_what_a_user_takes_from_himself_does_not_count() -> None:
    past = PastEvictions()
    put(past, replace(receipt(5), for_user="bob"))
    assert past.of("pool", 6) == ({}, {})


def test_room_of_the_evicted_is_expected_until_90_s_after_their_grace_period() -> None:
    taken = receipt(1000)
    assert overdue_ms(evictions_text([taken])) == taken.evict_at_ms + 90_000
    assert overdue_ms(evictions_text([taken.ended(2000, None)])) == overdue_ms(evictions_text([])) == FOREVER_MS


def test_takers_are_known_as_long_as_sessions_that_were_evicted_for_them_live() -> None:
    past = PastEvictions()
    put(past, receipt(1000).ended(2000, None))
    assert past.unknown_takers() == ["taker"]
    other, row = (
        SimpleNamespace(session_id=name, status="cancelled", scheduled_ms=None, ended_ms=1) for name in ("x", "taker")
    )
    past.taker_changed(other)
    assert (past.unknown_takers(), past.rooms_back("pool", ())) == (["taker"], {})
    past.put_taker(row)
    assert (past.unknown_takers(), past.rooms_back("pool", ()), past.rooms_back("other", ())) == ([], {"one": 2000}, {})
    put(past, receipt(1000).ended(2000, None), ended=True)
    assert (past.unknown_takers(), past.rooms_back("pool", ())) == ([], {})


def test_room_that_a_booking_took_is_back_when_it_is_removed_and_spends_no_budget() -> None:
    past = PastEvictions()
    put(past, replace(receipt(1000), for_booking="demo", for_session=SessionId("")).ended(2000, None))
    assert past.unknown_takers() == []
    assert past.rooms_back("pool", {"demo"}) == {}
    assert past.rooms_back("pool", {"another"}) == {"one": 2000}
    assert past.of("pool", 1001) == ({}, {})
