"""Verdicts on keys that are not in the table, each for a short time.

The manager is asked about each. A verdict is fresh for a while; then the manager is asked
again, at first beside the requests, later before they go on. While it is away, keys that
it has confirmed go on to work.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass

from sokovan.proxy.accounts.token_buckets import TokenBucket
from sokovan.proxy.http.error_bodies import ProxyRefusal
from sokovan.wire.serving.route_table import KeyEntry

# A verdict is used without asking again, and while the manager is asked again.
FRESH_MS, USED_MS = 2_000, 4_000
REFUSED_MS = 1_000
# How long a confirmed key works while the manager is away.
AWAY_MS = 3_600_000
KEPT_MAX = 10_000
# Questions about keys that were never confirmed: guesses must not load the manager.
QUESTIONS_PER_MINUTE = 3_000
INVALID = ProxyRefusal(401, "invalid-key", "the API key is unknown, expired or revoked")
UNCHECKED = ProxyRefusal(503, "key-unchecked", "the manager that knows the key is away", retry_after_s=5)
TOO_MANY = ProxyRefusal(503, "too-many-keys", "too many unknown keys are being checked", retry_after_s=1)
_USER_KEY = re.compile(rb"sk-[A-Za-z0-9][A-Za-z0-9_\-]{0,127}\.[A-Za-z0-9_\-]{43}")
_ENDPOINT_TOKEN = re.compile(rb"ske_[A-Za-z0-9_\-]{43}")


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """A key about which the manager is to be asked before the request goes on."""

    secret: bytes


@dataclass(slots=True)
class _Verdict:
    result: KeyEntry | ProxyRefusal
    fresh_until_ms: int
    used_until_ms: int
    confirmed_ms: int


class KeyVerdicts:
    """The verdicts of one proxy; without a manager there are none."""

    def __init__(self, *, has_manager: bool = False) -> None:
        self._has_manager = has_manager
        self._verdicts: OrderedDict[bytes, _Verdict] = OrderedDict()
        self._questions = TokenBucket(QUESTIONS_PER_MINUTE, 0)

    def find(self, secret: bytes, now_ms: int) -> KeyEntry | ProxyRefusal | UnknownKey:
        """The verdict on a key, or that the manager is to be asked."""
        verdict = self._verdicts.get(secret)
        if verdict is not None and now_ms < verdict.used_until_ms:
            return verdict.result
        if not self._has_manager or not (_USER_KEY.fullmatch(secret) or _ENDPOINT_TOKEN.fullmatch(secret)):
            return INVALID
        if verdict is None or not isinstance(verdict.result, KeyEntry):
            if self._questions.wait_ms(now_ms):
                return TOO_MANY
            self._questions.take(now_ms)
        return UnknownKey(secret)

    def is_fresh(self, secret: bytes, now_ms: int) -> bool:
        """Whether the manager need not be asked again, while the verdict is used."""
        verdict = self._verdicts.get(secret)
        return verdict is None or now_ms < verdict.fresh_until_ms

    def answered(self, secret: bytes, entry: KeyEntry | None, now_ms: int) -> None:
        """Take over the manager's answer."""
        if entry is None:
            self._keep(secret, _Verdict(INVALID, now_ms + REFUSED_MS, now_ms + REFUSED_MS, 0))
        else:
            self._keep(secret, _Verdict(entry, now_ms + FRESH_MS, now_ms + USED_MS, now_ms))

    def unanswered(self, secret: bytes, now_ms: int) -> None:
        """Take note that the manager did not answer: a confirmed key goes on to work."""
        verdict = self._verdicts.get(secret)
        if verdict is not None and isinstance(verdict.result, KeyEntry) and now_ms < verdict.confirmed_ms + AWAY_MS:
            verdict.fresh_until_ms, verdict.used_until_ms = now_ms + FRESH_MS, now_ms + USED_MS
            return
        # The table has every older endpoint token.
        refusal = INVALID if _ENDPOINT_TOKEN.fullmatch(secret) else UNCHECKED
        self._keep(secret, _Verdict(refusal, now_ms + REFUSED_MS, now_ms + REFUSED_MS, 0))

    def _keep(self, secret: bytes, verdict: _Verdict) -> None:
        self._verdicts[secret] = verdict
        self._verdicts.move_to_end(secret)
        if len(self._verdicts) > KEPT_MAX:
            self._verdicts.popitem(last=False)
