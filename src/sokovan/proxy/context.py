"""The state that the connections of one proxy share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sokovan.proxy.accounts.key_limits import KeyAccounts
from sokovan.proxy.accounts.key_verdicts import INVALID, KeyVerdicts, UnknownKey
from sokovan.proxy.accounts.token_counts import TokenCount
from sokovan.proxy.accounts.usage_ledger import UsageLedger
from sokovan.proxy.endpoint_connections import Dialler
from sokovan.proxy.http.error_bodies import ProxyRefusal
from sokovan.proxy.routing.choice import Draws
from sokovan.proxy.routing.retries import RetryBudget
from sokovan.proxy.routing.table_state import TableState
from sokovan.wire.serving.route_table import KeyEntry

# Bodies of requests that are kept, in all.
HELD_BYTES_MAX = 256 << 20
KEYS_CACHED_MAX = 10_000


@dataclass(slots=True)
class ProxyCounters:
    """Counters for the metrics."""

    answers: dict[int, int] = field(default_factory=dict)
    retries: int = 0
    clients_gone: int = 0
    bad_heads: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_tokens: int = 0

    def answered(self, status: int) -> None:
        """Count a response."""
        self.answers[status] = self.answers.get(status, 0) + 1

    def used(self, count: TokenCount) -> None:
        """Count the tokens of a request."""
        if count.estimated:
            self.estimated_tokens += count.total
        else:
            self.input_tokens += count.input_tokens
            self.output_tokens += count.output_tokens


@dataclass(slots=True, kw_only=True)
class ProxyContext:
    """Table, accounts and limits of one proxy.

    `wall_ms` is the time of day; all time-outs use the monotonic clock of the loop. `exchanges`
    are the requests under way, `clients` the open connections, `unleased` the requests that
    wait for a lease of their key's budget, `leaving` the responses whose client has left.
    `url` is the gateway's for other programs. `ask_key` asks the manager about a key.
    `listeners` gives the sockets that listen at a port of this machine; None: not known.
    """

    loop: asyncio.AbstractEventLoop
    wall_ms: Callable[[], int]
    draws: Draws
    ledger: UsageLedger
    log: Callable[[str], None]
    table: TableState[Any] = field(default_factory=TableState)
    accounts: KeyAccounts = field(default_factory=KeyAccounts)
    retries: RetryBudget = field(default_factory=RetryBudget)
    counters: ProxyCounters = field(default_factory=ProxyCounters)
    exchanges: set[Any] = field(default_factory=set)
    clients: set[Any] = field(default_factory=set)
    unleased: set[Any] = field(default_factory=set)
    leaving: set[Any] = field(default_factory=set)
    held_bytes: int = 0
    table_ms: int = 0
    manager_seen_ms: int = 0
    manager_away: bool = False
    draining: bool = False
    url: str = ""
    demanded: asyncio.Event = field(default_factory=asyncio.Event)
    table_changed: asyncio.Event = field(default_factory=asyncio.Event)
    metrics: Callable[[], bytes] = lambda: b""
    verdicts: KeyVerdicts = field(default_factory=KeyVerdicts)
    ask_key: Callable[[bytes, Callable[[], None]], None] = lambda _secret, known: known()
    listeners: Callable[[int], frozenset[int] | None] = lambda _port: None
    dialler: Dialler = field(default_factory=Dialler)
    keys_cached: dict[bytes, KeyEntry] = field(default_factory=dict)

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return int(self.loop.time() * 1000)

    def key_of(self, secret: bytes) -> KeyEntry | ProxyRefusal | UnknownKey:
        """The valid key with this secret, or why there is none."""
        key = self.keys_cached.get(secret)
        if key is None:
            key = self.table.key_of(secret)
            if key is None:
                return self._verdict(secret)
            if len(self.keys_cached) >= KEYS_CACHED_MAX:
                self.keys_cached.clear()
            self.keys_cached[secret] = key
        return key if not key.expires_at_ms or self.wall_ms() < key.expires_at_ms else INVALID

    def _verdict(self, secret: bytes) -> KeyEntry | ProxyRefusal | UnknownKey:
        """The verdict on a key that is not in the table."""
        now_ms = self.now_ms()
        found = self.verdicts.find(secret, now_ms)
        if not isinstance(found, KeyEntry):
            return found
        if not self.verdicts.is_fresh(secret, now_ms):
            self.ask_key(secret, lambda: None)
        return found if not found.expires_at_ms or self.wall_ms() < found.expires_at_ms else INVALID
