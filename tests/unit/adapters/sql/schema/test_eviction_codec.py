"""The stored form of receipts is read back as it was."""

from __future__ import annotations

from sokovan.adapters.sql.schema.eviction_codec import NO_EVICTIONS, evictions_of, evictions_text
from tests.unit.domain.lifecycle.test_eviction import receipt


def test_receipts_are_stored_without_loss() -> None:
    stored = (receipt(1_000_000), receipt(2_000_000, 2).ended(2_003_000, None))
    assert evictions_of(evictions_text(stored)) == stored


def test_a_session_without_evictions_stores_an_empty_list() -> None:
    assert (evictions_text(()), evictions_of(NO_EVICTIONS)) == (NO_EVICTIONS, ())
