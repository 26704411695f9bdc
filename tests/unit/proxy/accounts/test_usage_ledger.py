"""Usage is summed per minute and numbered once."""

from __future__ import annotations

from typing import Any

from sokovan.proxy.accounts.token_counts import TokenCount
from sokovan.proxy.accounts.usage_ledger import UsageLedger


def add(ledger: UsageLedger, count: TokenCount, **changes: Any) -> None:
    values = {"key_id": "t1", "deployment_id": "d1", "revision": 1, "failed": False, "now_ms": 60_000, **changes}
    ledger.add(count=count, **values)


def test_requests_of_a_minute_and_key_are_one_entry() -> None:
    ledger = UsageLedger()
    add(ledger, TokenCount(1, 2))
    add(ledger, TokenCount(10, 20), failed=True)
    add(ledger, TokenCount(3, 4, estimated=True))
    add(ledger, TokenCount(5, 5), now_ms=120_000)
    assert ledger.close()

    first, second = ledger.unsent()
    assert (first.sequence, first.minute, first.requests, first.failed) == (1, 1, 3, 1)
    assert (first.input_tokens, first.output_tokens) == (11, 22)
    assert (first.estimated_requests, first.estimated_tokens) == (1, 7)
    assert (second.sequence, second.minute) == (2, 2)


def test_a_numbered_entry_never_changes() -> None:
    ledger = UsageLedger()
    add(ledger, TokenCount(1, 1))
    ledger.close()
    before = ledger.unsent()
    add(ledger, TokenCount(1, 1))
    ledger.close()

    assert ledger.unsent()[:1] == before
    assert [entry.sequence for entry in ledger.unsent()] == [1, 2]


def test_entries_are_kept_until_they_are_stored() -> None:
    ledger = UsageLedger()
    for minute in range(3):
        add(ledger, TokenCount(1, 1), now_ms=minute * 60_000)
    ledger.close()
    assert ledger.stored(2)
    assert [entry.sequence for entry in ledger.unsent()] == [3]

    assert not ledger.stored(1), "an older answer changes nothing"
    assert not ledger.close()


def test_numbers_go_on_after_a_restart() -> None:
    ledger = UsageLedger()
    add(ledger, TokenCount(1, 1))
    ledger.close()
    again = UsageLedger(sequence=ledger.sequence, entries=ledger.unsent())
    add(again, TokenCount(2, 2))
    again.close()

    assert [entry.sequence for entry in again.unsent()] == [1, 2]
