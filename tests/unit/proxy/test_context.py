"""The state that connections share."""

from __future__ import annotations

import asyncio

from sokovan.proxy import context as module
from sokovan.proxy.accounts.key_verdicts import INVALID
from sokovan.proxy.accounts.token_counts import TokenCount
from sokovan.proxy.accounts.usage_ledger import UsageLedger
from sokovan.proxy.context import ProxyContext, ProxyCounters
from sokovan.proxy.routing.choice import Draws
from sokovan.wire.serving.route_table import KeyEntry
from tests.unit.proxy.running_proxy import KEY, key_of, table_of


async def test_keys_are_found_again_and_expire_by_the_time_of_day() -> None:
    now = [1_000]
    context = ProxyContext(
        loop=asyncio.get_running_loop(),
        wall_ms=lambda: now[0],
        draws=Draws(1),
        ledger=UsageLedger(),
        log=lambda _line: None,
    )
    context.table.apply(table_of(keys=(key_of(expires_at_ms=2_000),)))

    for _ in range(2):
        found = context.key_of(KEY)
        assert isinstance(found, KeyEntry)
        assert found.key_id == "key-1"
    assert len(context.keys_cached) == 1
    assert context.key_of(b"other") is INVALID
    assert len(context.keys_cached) <= module.KEYS_CACHED_MAX
    now[0] = 2_000
    assert context.key_of(KEY) is INVALID


def test_tokens_are_counted_by_kind() -> None:
    counters = ProxyCounters()
    counters.used(TokenCount(1, 2))
    counters.used(TokenCount(3, 4, estimated=True))

    assert (counters.input_tokens, counters.output_tokens, counters.estimated_tokens) == (1, 2, 7)
