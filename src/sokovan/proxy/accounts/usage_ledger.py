"""Usage per minute, key and revision, numbered for the manager."""

from __future__ import annotations

from dataclasses import dataclass

from sokovan.proxy.accounts.token_counts import TokenCount
from sokovan.wire.serving.proxy_reports import USAGE_MAX, UsageEntry

MINUTE_MS = 60_000


@dataclass(slots=True)
class _Open:
    requests: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_requests: int = 0
    estimated_tokens: int = 0


class UsageLedger:
    """Usage that the manager has not stored yet.

    Requests are added to the open minute; `close` numbers what is open. An entry with a
    number never changes, so that the manager may get it twice and store it once.
    """

    def __init__(self, *, sequence: int = 0, entries: tuple[UsageEntry, ...] = ()) -> None:
        self.sequence = max([sequence, *(entry.sequence for entry in entries)])
        self.entries = list(entries)
        self._open: dict[tuple[int, str, str, int], _Open] = {}

    def add(
        self, *, key_id: str, deployment_id: str, revision: int, count: TokenCount, failed: bool, now_ms: int
    ) -> None:
        """Count one request; `now_ms` is the time of day."""
        place = (now_ms // MINUTE_MS, key_id, deployment_id, revision)
        total = self._open.get(place)
        if total is None:
            total = self._open[place] = _Open()
        total.requests += 1
        total.failed += failed
        if count.estimated:
            total.estimated_requests += 1
            total.estimated_tokens += count.total
        else:
            total.input_tokens += count.input_tokens
            total.output_tokens += count.output_tokens

    def close(self) -> bool:
        """Number what is open; false if nothing was."""
        closed = bool(self._open)
        for (minute, key_id, deployment_id, revision), total in self._open.items():
            self.sequence += 1
            self.entries.append(
                UsageEntry(
                    sequence=self.sequence,
                    minute=minute,
                    key_id=key_id,
                    deployment_id=deployment_id,
                    revision=revision,
                    requests=total.requests,
                    failed=total.failed,
                    input_tokens=total.input_tokens,
                    output_tokens=total.output_tokens,
                    estimated_requests=total.estimated_requests,
                    estimated_tokens=total.estimated_tokens,
                )
            )
        self._open.clear()
        return closed

    def unstored(self, since_minute: int) -> dict[str, int]:
        """The tokens since a minute that the manager has not stored, by key."""
        tokens: dict[str, int] = {}
        for entry in self.entries:
            if entry.minute >= since_minute:
                used = entry.input_tokens + entry.output_tokens + entry.estimated_tokens
                tokens[entry.key_id] = tokens.get(entry.key_id, 0) + used
        for (minute, key_id, _, _), total in self._open.items():
            if minute >= since_minute:
                used = total.input_tokens + total.output_tokens + total.estimated_tokens
                tokens[key_id] = tokens.get(key_id, 0) + used
        return tokens

    def unsent(self) -> tuple[UsageEntry, ...]:
        """The oldest entries, as many as a report may have."""
        return tuple(self.entries[:USAGE_MAX])

    def stored(self, sequence: int) -> bool:
        """Forget what the manager has stored; false if that was nothing."""
        kept = [entry for entry in self.entries if entry.sequence > sequence]
        changed = len(kept) < len(self.entries)
        self.entries = kept
        return changed
