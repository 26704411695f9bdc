"""Invariants of evictions: each is violated by hand, and the row is reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.eviction import EvictionReceipt
from tests.unit.adapters.sql.broken import Break, each, see


def receipt(number: int = 1, *, at_ms: int = 5, ended_ms: int | None = 6) -> EvictionReceipt:
    return EvictionReceipt(
        number, 1, at_ms, SessionId("x"), "u", "preempt", 1, whole=True, slots=1000, saved_ms=1, reported=False,
        evict_at_ms=5, ended_ms=ended_ms,
    )  # fmt: skip


def with_receipts(session_id: str, *receipts: EvictionReceipt) -> str:
    text = msgspec.json.encode(receipts).decode()
    return f"UPDATE sessions SET evictions = '{text}' WHERE session_id = '{session_id}'"  # noqa: S608  # fixed texts


BREAKS = [
    Break("I33", "a receipt stays open", with_receipts("done", receipt(ended_ms=None)), {"session_id": "done"}),
    Break("I33", "a receipt is missing", with_receipts("done", receipt(1), receipt(3)), {"session_id": "done"}),
    Break(
        "I33", "a notice after the end", with_receipts("done", receipt(at_ms=9)), {"session_id": "done", "number": 1}
    ),
    Break(
        "I33",
        "a receipt is for a session and a booking",
        with_receipts("done", replace(receipt(), for_booking="demo")),
        {"session_id": "done", "number": 1},
    ),
    Break(
        "I33",
        "kernels are evicted without a receipt",
        "UPDATE kernel_history SET trigger = 'evicted' WHERE object_id = 'done.0' AND trigger = 'exited'",
        {"session_id": "done", "times": 1},
    ),
    Break(
        "I33",
        "a receipt is of an earlier eviction",
        (
            (
                "UPDATE kernel_history SET trigger = 'evicted'"
                " WHERE object_id = 'done.0' AND trigger IN ('exited', 'started')"
            ),
            with_receipts("done", receipt(1)),
        ),
        {"session_id": "done", "times": 2, "receipts": 1},
        also=("I9",),
    ),
]


@pytest.mark.slow
@each(BREAKS)
async def test_what_breaks_it_is_found_and_named(broken: Break, busy_file: Path) -> None:
    await see(broken, busy_file)
