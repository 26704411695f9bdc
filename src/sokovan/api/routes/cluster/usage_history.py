"""Route of held slots over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import require_known, visible_filter
from sokovan.api.context import ApiContext
from sokovan.api.mapping.times import DURATION_MAX_S, read_time, time_text
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.routes.parameters import TIME_MAX, SessionChoice, name_field
from sokovan.domain.owners.past_usage import slot_weight, unit_of
from sokovan.domain.owners.usage_history import UsageBy, UsageOf, UsageSeries, UsageWindow, default_step_ms
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.tenancy import UsageHistoryView, UsageSeriesView

# Names of a history that are listed.
NAMES_LISTED = 50
_DAY_MS = 24 * 3600 * 1000


class UsageHistoryQuery(SessionChoice):
    """The window of a history, and what it is divided by."""

    since: str | None = Field(default=None, max_length=TIME_MAX, description="From this time on; a day before `until`.")
    until: str | None = Field(default=None, max_length=TIME_MAX, description="To this time; now by default.")
    step: int | None = Field(default=None, ge=1, le=DURATION_MAX_S, description="Seconds of a step; 10 or more.")
    by: UsageBy = Field(default=UsageBy.ALL, description="The property of sessions that it is divided by.")
    of: UsageOf = Field(
        default=UsageOf.SLOTS, description="Slots that were held, sessions that ran and waited, their GPUs, or agents."
    )
    slot: str | None = name_field("Only this slot; of sessions or GPUs, running or waiting.")

    def window(self, now_ms: int) -> UsageWindow:
        """The window; it does not go beyond now. Raises InvalidSpec."""
        to_ms = min(now_ms, now_ms if self.until is None else read_time(self.until, field="until", what="window"))
        from_ms = to_ms - _DAY_MS if self.since is None else read_time(self.since, field="since", what="window")
        step_ms = default_step_ms(to_ms - from_ms) if self.step is None else self.step * 1000
        return UsageWindow(max(0, from_ms), to_ms, step_ms)


class UsageHistoryRoutes:
    """Slots that sessions held over time."""

    def __init__(self, context: ApiContext) -> None:
        self._store = context.dependencies.store

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="GET", path="/api/v1/usage/history", endpoint=self.history, tag="usage",
                answer=UsageHistoryView, fails=(404,),
            ),
        ]  # fmt: skip

    async def history(self, request: Request, query: Annotated[UsageHistoryQuery, Query()]) -> Response:
        """Show the slots that sessions held over time, as means of equal steps.

        Of sessions that the caller may see. Exact as long as the sessions are stored; by default of the last 24 hours.
        With `of=sessions`, the number of sessions that ran and that waited; with `of=gpus`, of the accelerators that
        they requested; with `of=agents`, of the agents that took kernels.
        """
        scope = visible_filter(principal_of(request.scope), query.filter())

        async def work(unit: UnitOfWork) -> UsageHistoryView:
            window = query.window(unit.now_ms)
            found = await unit.sessions.usage_history(scope, window, query.by, query.of) if scope is not None else []
            if scope is not None and not found:
                await require_known(unit, scope)
            return _history_view(window, query, [one for one in found if query.slot in {None, one.slot}])

        return json_response(await self._store.read(work))


def _history_view(window: UsageWindow, query: UsageHistoryQuery, series: Sequence[UsageSeries]) -> UsageHistoryView:
    # By device, then by core: those who held the most are listed.
    weight: Counter[str] = Counter()
    for one in series:
        weighed = query.of is UsageOf.SLOTS
        weight[one.name] += sum(one.used) * slot_weight(one.slot, {}) // unit_of(one.slot) if weighed else sum(one.used)
    listed = dict(weight.most_common(NAMES_LISTED))
    return UsageHistoryView(
        since=time_text(window.from_ms),
        until=time_text(window.to_ms),
        step_s=window.step_ms // 1000,
        by=query.by.value,
        items=[
            UsageSeriesView(name=one.name, slot=one.slot, used=list(one.used)) for one in series if one.name in listed
        ],
        left_out=len(weight) - len(listed),
    )
