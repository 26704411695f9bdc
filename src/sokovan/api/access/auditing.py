"""Audit entries of changes and of denied requests."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from starlette.requests import HTTPConnection

from sokovan.api.access.authentication import AuthenticatedPrincipal, access_key_of, principal_of
from sokovan.api.access.request_limits import Buckets
from sokovan.domain.errors import SokovanError
from sokovan.ports.environment import Clock
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.storage import Store

DONE = "done"
DENIED = "denied"
TEXT_MAX = 200
# The action of a refused credential, which is no user's.
REFUSED = "authenticate"
ANONYMOUS = "anonymous"
DENIED_PER_MINUTE = 60


def audit_entry(
    principal: AuthenticatedPrincipal, action: str, target: str, *, outcome: str = DONE, **detail: str
) -> AuditEntry:
    """One audit entry; `action` is a kind and a verb, as `queue.put`."""
    return AuditEntry(
        who=principal.user,
        action=action,
        target=shown(target),
        outcome=outcome,
        request_id=principal.request_id,
        detail={
            "key": principal.access_key,
            "from": principal.address,
            **{name: shown(text) for name, text in detail.items()},
        },
    )


class Auditor:
    """Records denied requests; changes are recorded in their own transaction.

    Rate-limited per user: further denials are counted, and the next entry has their
    number.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._lines = Buckets(clock, per_s=DENIED_PER_MINUTE / 60, burst=DENIED_PER_MINUTE)
        self._unwritten: Counter[str] = Counter()

    async def denied(self, request: HTTPConnection, error: SokovanError) -> None:
        """Record a request to change something that was denied."""
        principal = principal_of(request.scope)
        if self._lines.take(principal.user):
            self._unwritten[principal.user] += 1
            return
        route = getattr(request.scope.get("route"), "path_format", "")
        unwritten = self._unwritten.pop(principal.user, 0)
        entry = audit_entry(
            principal,
            f"{request.scope.get('method', 'WEBSOCKET')} {route}",
            request.url.path,
            outcome=DENIED,
            code=error.code,
            **({"unwritten": str(unwritten)} if unwritten else {}),
        )
        await self._store.run(lambda unit: unit.audit.append(entry))

    async def refused(self, token: str | None, *, address: str, request_id: str) -> None:
        """Record a credential that was refused: its public part, never the secret.

        All clients share one limit, because anyone can cause these entries.
        """
        if self._lines.take(REFUSED):
            self._unwritten[REFUSED] += 1
            return
        unwritten = self._unwritten.pop(REFUSED, 0)
        entry = AuditEntry(
            who=ANONYMOUS,
            action=REFUSED,
            target=shown("malformed" if token is None else access_key_of(token)),
            outcome=DENIED,
            request_id=request_id,
            detail={"from": address, **({"unwritten": str(unwritten)} if unwritten else {})},
        )
        with suppress(SokovanError):  # the answer to the client does not depend on it
            await self._store.run(lambda unit: unit.audit.append(entry))


def shown(text: str) -> str:
    """Client input, made printable and shortened."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text[:TEXT_MAX])
