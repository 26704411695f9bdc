"""The stored form of the receipts of evictions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sokovan.domain.lifecycle.eviction import Checkpoint, EvictionReceipt

__all__ = ["NO_EVICTIONS", "Checkpoint", "EvictionReceipt", "evictions_of", "evictions_text"]

NO_EVICTIONS = "[]"


def evictions_text(evictions: Sequence[EvictionReceipt]) -> str:
    """The stored form of the evictions of a session."""
    return msgspec.json.encode(evictions).decode() if evictions else NO_EVICTIONS


def evictions_of(text: str) -> tuple[EvictionReceipt, ...]:
    """Decode the evictions of a session."""
    return () if text == NO_EVICTIONS else _RECEIPTS.decode(text)


_RECEIPTS = msgspec.json.Decoder(tuple[EvictionReceipt, ...])
