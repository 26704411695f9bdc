"""Idempotency: a request that is sent twice with one key makes one session."""

from __future__ import annotations

import hashlib
import json

from sokovan.domain.plain_values import to_plain
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.orchestrator.sessions.intake.requests import Caller, SessionRequest
from sokovan.ports.repositories.sessions import RequestKey

KEY_MAX = 255


def request_key(request: SessionRequest, caller: Caller, key: str) -> RequestKey:
    """An idempotency key of a caller for this very request. Raises InvalidRequest."""
    if not 1 <= len(key) <= KEY_MAX or not key.isascii() or not key.isprintable():
        raise InvalidRequest([Problem("Idempotency-Key", f"is not 1 to {KEY_MAX} printable ASCII characters")])
    text = json.dumps(to_plain(request), sort_keys=True)
    return RequestKey(scope=caller.owner.access_key, key=key, digest=hashlib.sha256(text.encode()).hexdigest())
