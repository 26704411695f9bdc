"""Past evictions protect queues that gave, and users who lost much."""

from __future__ import annotations

from dataclasses import replace

from sokovan.adapters.sql.repositories.sessions.receipts import NO_EVICTIONS, evictions_text
from sokovan.adapters.sql.snapshots.past_evictions import PastEvictions
from sokovan.domain.ids import QueueName, SessionId
from sokovan.domain.owners.tenancy import Owner
from sokovan.scheduling.snapshot import SessionWorkload
from tests.unit.domain.lifecycle.test_eviction import receipt

HOUR_MS = 3_600_000
ONE = SessionId("one")
SESSIONS = {ONE: SessionWorkload(ONE, (), owner=Owner(user="alice"), queue=QueueName("research"))}


def test_a_queue_gave_when_it_was_last_reclaimed_from() -> None:
    past = PastEvictions()
    reclaimed = [replace(receipt(at, number), action="reclaim") for number, at in enumerate((5, 9), 1)]
    past.put(ONE, evictions_text([*reclaimed, receipt(12, 3)]))
    assert past.of(SESSIONS, 20) == ({"research": 9}, {"alice": 6})


def test_evictions_of_an_earlier_hour_or_of_another_group_do_not_count() -> None:
    past = PastEvictions()
    past.put(ONE, evictions_text([receipt(0), receipt(HOUR_MS, 2)]))
    assert past.of(SESSIONS, HOUR_MS + 1) == ({}, {"alice": 2})
    assert past.of({}, HOUR_MS + 1) == ({}, {})
    past.drop(ONE)
    past.put(SessionId("two"), NO_EVICTIONS)
    assert past.of(SESSIONS, HOUR_MS + 1) == ({}, {})
