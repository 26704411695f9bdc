"""Agents say whether the port of an endpoint is that of its kernel."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest

from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.serving.replica import Endpoint
from sokovan.orchestrator.routes import port_ownership
from sokovan.orchestrator.routes.port_ownership import PortOwnership
from sokovan.ports.agent_gateway import AgentRefused, AgentUnreachable
from sokovan.ports.runtime import RuntimeFailure

FAR = AgentId("far")


class Connection:
    """A connection that opens, fails, or never opens."""

    def __init__(self, outcome: Exception | None, *, hangs: bool) -> None:
        self._outcome, self._hangs = outcome, hangs

    async def __aenter__(self) -> Self:
        if self._hangs:
            await asyncio.Event().wait()
        if self._outcome is not None:
            raise self._outcome
        return self

    async def __aexit__(self, *_details: object) -> None:
        pass


class Gateway:
    """Agents that answer by the name of the kernel."""

    def connected(self, agent_id: AgentId) -> bool:
        return agent_id != FAR

    def connect(self, agent_id: AgentId, kernel_id: KernelId, attempt: int, port: int) -> Any:
        assert (attempt, port) == (2, 8000)
        outcomes: dict[str, Exception | None] = {
            "foreign": AgentRefused(
                agent_id=agent_id, problem="used by another [runtime-failure]", reason=RuntimeFailure.code
            ),
            "busy": AgentRefused(agent_id=agent_id, problem="64 run", reason="stream-unavailable"),
            "silent": AgentUnreachable(agent_id=agent_id, problem="it did not answer"),
        }
        return Connection(outcomes.get(kernel_id), hangs=kernel_id == "hangs")


async def test_each_endpoint_whose_agent_has_looked_gets_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_ownership, "ANSWER_S", 0.01)
    names = ("own", "foreign", "busy", "silent", "hangs")
    endpoints = [Endpoint(KernelId(name), 2, AgentId("near"), 8000) for name in names]
    endpoints.append(Endpoint(KernelId("unlinked"), 2, FAR, 8000))
    answers = await PortOwnership(Gateway())(endpoints)  # type: ignore[arg-type]  # only what it uses
    assert answers == {"own.2": "", "foreign.2": "used by another"}
    assert await PortOwnership(Gateway())([]) == {}  # type: ignore[arg-type]  # only what it uses
