"""The audit trail of the API: who changed what, and who tried to."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from sokovan.api.authentication import Asker
from sokovan.api.gate import asker_of
from sokovan.domain.errors import SokovanError
from sokovan.ports.audit import AuditEntry
from sokovan.ports.storage import Store

DONE = "done"
DENIED = "denied"
TEXT_MAX = 200


def audit_entry(asker: Asker, action: str, target: str, *, outcome: str = DONE, **detail: str) -> AuditEntry:
    """One line for the trail; `action` is a kind and a verb, as `queue.put`."""
    return AuditEntry(
        who=asker.user,
        action=action,
        target=_shown(target),
        outcome=outcome,
        request_id=asker.request_id,
        detail={
            "key": asker.access_key,
            "from": asker.address,
            **{name: _shown(text) for name, text in detail.items()},
        },
    )


class Auditor:
    """Writes down what was refused; what was done is written with its own transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def denied(self, request: HTTPConnection, error: SokovanError) -> None:
        """A call that would have changed something, by somebody who may not."""
        route = getattr(request.scope.get("route"), "path_format", "")
        entry = audit_entry(
            asker_of(request.scope),
            f"{request.scope.get('method', 'WEBSOCKET')} {route}",
            request.url.path,
            outcome=DENIED,
            code=error.code,
        )
        await self._store.run(lambda unit: unit.audit.append(entry))


def _shown(text: str) -> str:
    """What a client wrote, fit for a line that people read."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text[:TEXT_MAX])
