"""Many sessions in one request: each line of the body is a session of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.uploads import require_upload
from sokovan.api.context import ApiContext
from sokovan.api.errors import BodyTooLarge
from sokovan.api.mapping.requests import session_request
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.problems import problem_of
from sokovan.api.request_bodies import parsed
from sokovan.api.routes.parameters import IdempotencyKey
from sokovan.api.streaming.request_lines import LineParts, too_many
from sokovan.domain.errors import SokovanError
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.domain.session_request import Caller, SessionRequest
from sokovan.orchestrator.sessions.intake.submissions import KeyedRequest
from sokovan.wire.api.batches import BATCH_PATH, BatchItemView, BatchView
from sokovan.wire.api.sessions import SessionBody


class _Sender(NamedTuple):
    """The sender of a batch, and the request it is sent in."""

    user: str
    caller: Caller
    request_id: str
    key: str | None


class SessionBatchRoutes:
    """The route that creates many sessions."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._controller, self._uploads = dependencies.controller, dependencies.uploads
        self._line_max = context.settings.body_bytes_max
        self._pace = context.line_pace
        self._hub = context.streams.hub

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="POST", path=BATCH_PATH, endpoint=self.create, tag="session-batches",
                lines=SessionBody, answer=BatchView, fails=(415,),
            ),
        ]  # fmt: skip

    async def create(
        self,
        request: Request,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Submit up to 10,000 sessions, one per line of the body.

        Each is accepted or refused for itself; the response has an outcome per line, in
        their order. With an `Idempotency-Key`, a repeated request returns the sessions that
        the first one created. An array is refused: it is one request already.
        """
        principal = principal_of(request.scope)
        sender = _Sender(principal.user, principal.caller, principal.request_id, idempotency_key)
        items: list[BatchItemView] = []
        lines = LineParts(request, self._line_max)
        async for part in lines:
            items += await self._stored(sender, len(items), part)
        if lines.unread:
            items.append(_refused(too_many(lines.unread), sender))
        accepted = sum(item.problem is None for item in items)
        return json_response(BatchView(items=items, accepted=accepted, refused=len(items) - accepted))

    async def _stored(self, sender: _Sender, first: int, lines: Sequence[bytes | None]) -> list[BatchItemView]:
        """Store the sessions of some lines together."""
        await self._pace.wait(sender.user, len(lines))
        outcomes: dict[int, BatchItemView] = {}
        requests: dict[int, KeyedRequest] = {}
        for place, line in enumerate(lines):
            try:
                wanted = await self._wanted(sender, line)
            except SokovanError as error:
                outcomes[place] = _refused(error, sender)
            else:
                key = None if sender.key is None else f"{sender.key}/{first + place}"
                requests[place] = KeyedRequest(wanted, key)
        stored = await self._controller.submit_many(list(requests.values()), sender.caller)
        created = [one.session for one in stored if not isinstance(one, SokovanError) and one.fresh]
        if created:
            self._hub.announce(created)
        for place, outcome in zip(requests, stored, strict=True):
            if isinstance(outcome, SokovanError):
                outcomes[place] = _refused(outcome, sender)
            else:
                session, fresh = outcome
                outcomes[place] = BatchItemView(session=session.session_id, name=session.spec.name, fresh=fresh)
        return [outcomes[place] for place in range(len(lines))]

    async def _wanted(self, sender: _Sender, line: bytes | None) -> SessionRequest:
        if line is None:
            raise BodyTooLarge(limit=self._line_max)
        wanted = session_request(parsed(line, SessionBody))
        if wanted.array is not None:
            raise InvalidRequest([Problem("array", "cannot be submitted in a batch; submit it alone")])
        if wanted.upload:
            await require_upload(self._uploads, sender.user, wanted.upload)
        return wanted


def _refused(error: SokovanError, sender: _Sender) -> BatchItemView:
    return BatchItemView(problem=problem_of(error, sender.request_id))
