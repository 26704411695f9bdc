"""The end of many sessions in one request: each line of the body names one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import read_summaries
from sokovan.api.context import ApiContext
from sokovan.api.errors import BodyTooLarge
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.problems import problem_of
from sokovan.api.request_bodies import parsed
from sokovan.api.routes.parameters import REASON_MAX, REF_MAX
from sokovan.api.streaming.request_lines import LineParts, too_many
from sokovan.domain.errors import ObjectNotFound, SokovanError
from sokovan.domain.records import SessionSummary
from sokovan.orchestrator.sessions.user_changes import EndOutcome
from sokovan.wire.api.batches import STOP_PATH, StopBody, StopItemView, StopView


class SessionEndingRoutes:
    """The route that ends many sessions."""

    def __init__(self, context: ApiContext) -> None:
        self._store, self._auditor = context.dependencies.store, context.auditor
        self._terminations = context.dependencies.controller.terminations
        self._line_max = context.settings.body_bytes_max
        self._pace = context.line_pace

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="POST", path=STOP_PATH, endpoint=self.stop, tag="session-batches",
                lines=StopBody, answer=StopView, fails=(415,),
            ),
        ]  # fmt: skip

    async def stop(
        self,
        request: Request,
        *,
        forced: Annotated[bool, Query(description="End them at once without waiting for their agents.")] = False,
        reason: Annotated[str, Query(max_length=REASON_MAX, description="The reason, kept in their history.")] = "",
    ) -> Response:
        """End up to 10,000 sessions, one per line of the body; they end asynchronously.

        Each is judged for itself; the response has an outcome per line, in their order. A
        session that ends already, or has ended, is no failure, so that a request can be
        repeated. The name of an array is refused: it is ended by one request of its own.
        """
        principal = principal_of(request.scope)
        items: list[StopItemView] = []
        hidden: ObjectNotFound | None = None
        lines = LineParts(request, self._line_max)
        async for part in lines:
            await self._pace.wait(principal.user, len(part))
            read = [self._ref(line) for line in part]
            named = iter(await read_summaries(self._store, [one for one in read if isinstance(one, str)], principal))
            found = [next(named) if isinstance(one, str) else one for one in read]
            known = [one for one in found if isinstance(one, SessionSummary)]
            ended = iter(await self._terminations.request(known, principal.caller, forced=forced, reason=reason))
            outcomes = [next(ended) if isinstance(one, SessionSummary) else one for one in found]
            hidden = next((one for one in outcomes if isinstance(one, ObjectNotFound)), hidden)
            items += [_ended(one, principal.request_id) for one in outcomes]
        if lines.unread:
            items.append(_ended(too_many(lines.unread), principal.request_id))
        if hidden is not None:
            await self._auditor.denied(request, hidden)
        accepted = sum(item.problem is None for item in items)
        return json_response(StopView(items=items, accepted=accepted, refused=len(items) - accepted))

    def _ref(self, line: bytes | None) -> str | SokovanError:
        """The reference in a line, or why it cannot be read."""
        try:
            if line is None:
                raise BodyTooLarge(limit=self._line_max)
            ref = parsed(line, StopBody).session
        except SokovanError as error:
            return error
        return ref if len(ref) <= REF_MAX else ObjectNotFound(what="session", name=ref[:REF_MAX])


def _ended(outcome: EndOutcome | SokovanError, request_id: str) -> StopItemView:
    if isinstance(outcome, SokovanError):
        return StopItemView(problem=problem_of(outcome, request_id))
    return StopItemView(id=outcome.session_id, name=outcome.spec.name, status=outcome.status.value)
