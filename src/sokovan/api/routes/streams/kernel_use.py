"""The route of what the kernels of a session use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from sokovan.api.access.authentication import principal_of
from sokovan.api.access.lookup import session_named
from sokovan.api.context import ApiContext
from sokovan.api.mapping.explanations import held_figures
from sokovan.api.operations import ApiOperation, json_response
from sokovan.api.routes.parameters import Ref
from sokovan.api.streaming.kernel_use import KernelMeter, Measured
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.records import KernelRecord, SessionSummary
from sokovan.ports.runtime import KernelUse
from sokovan.ports.storage import UnitOfWork
from sokovan.wire.api.explanations import KernelUseView, SessionMetricsView

# Kernels of one response.
KERNELS_MAX = 64
INDEXES = rf"^\d{{1,7}}(,\d{{1,7}}){{0,{KERNELS_MAX - 1}}}$"


class KernelUseRoutes:
    """The route of what kernels use."""

    def __init__(self, context: ApiContext) -> None:
        dependencies = context.dependencies
        self._store, self._agents = dependencies.store, dependencies.agents
        self._meter = KernelMeter(dependencies.gateway, dependencies.clock)

    def operations(self) -> list[ApiOperation]:
        """The operations of this resource."""
        return [
            ApiOperation(
                method="GET", path="/api/v1/sessions/{ref}/metrics", endpoint=self.metrics, tag="sessions",
                answer=SessionMetricsView, fails=(404, 409), asks_agents=True,
            ),
        ]  # fmt: skip

    async def metrics(
        self,
        request: Request,
        ref: Ref,
        *,
        kernel: Annotated[
            str | None,
            Query(pattern=INDEXES, description="Indexes, separated by commas; by default the first 64 kernels."),
        ] = None,
    ) -> Response:
        """Measure the CPU time, memory and processes of the kernels of a session.

        Agents are asked at most once per second for a kernel. One that cannot be measured has
        an `error`. A rate is the difference of `cpu_ms` over that of `sampled_ms`. Figures of
        devices are those of the last heartbeat.
        """
        principal = principal_of(request.scope)
        indexes = None if kernel is None else sorted({int(index) for index in kernel.split(",")})

        async def work(unit: UnitOfWork) -> tuple[SessionSummary, Sequence[KernelRecord]]:
            record = await session_named(unit, ref, principal)
            if indexes is None:
                return record, await unit.sessions.kernels(record.session_id, limit=KERNELS_MAX)
            return record, await _chosen(unit, record.session_id, indexes)

        record, kernels = await self._store.read(work)
        uses = await self._meter.measured(kernels)
        holding = [one for one in kernels if one.devices and one.status not in KERNEL.terminal]
        states = {one: await self._agents.get(one) for one in {kernel.agent_id for kernel in holding} if one}
        figures = {one.kernel_id: held_figures(one, states.get(one.agent_id or AgentId(""))) for one in holding}
        return json_response(
            SessionMetricsView(
                session=str(record.session_id),
                status=record.status.value,
                size=record.spec.size,
                items=[
                    replace(_view(one, use), devices=figures.get(one.kernel_id, {}))
                    for one, use in zip(kernels, uses, strict=True)
                ],
            )
        )


async def _chosen(unit: UnitOfWork, session_id: SessionId, indexes: Sequence[int]) -> list[KernelRecord]:
    """The kernels of these indexes that exist; neighbours are read together."""
    found: list[KernelRecord] = []
    for first, count in _runs(indexes):
        rows = await unit.sessions.kernels(session_id, limit=count, after=first - 1)
        found += [row for row in rows if row.index < first + count]
    return found


def _runs(indexes: Iterable[int]) -> list[tuple[int, int]]:
    """Ordered numbers as runs of neighbours: the first and how many."""
    runs: list[tuple[int, int]] = []
    for index in indexes:
        if runs and index == runs[-1][0] + runs[-1][1]:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((index, 1))
    return runs


def _view(kernel: KernelRecord, measured: Measured) -> KernelUseView:
    use = measured if isinstance(measured, KernelUse) else None
    return KernelUseView(
        index=kernel.index,
        rank=kernel.rank,
        status=kernel.status.value,
        agent=kernel.agent_id,
        slots=dict(kernel.slots.items()),
        cpu_ms=None if use is None else use.cpu_ms,
        memory_bytes=None if use is None else use.memory_bytes,
        processes=None if use is None else use.processes,
        sampled_ms=None if use is None else use.sampled_ms,
        error=measured if isinstance(measured, str) else None,
    )
