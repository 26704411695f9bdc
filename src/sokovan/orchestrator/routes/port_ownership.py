"""Asks agents whether the kernel of an endpoint itself listens at its port.

Kernels share the network of their machine: a probe may be answered by a program that took
the port before the engine did. Only the agent knows whose socket it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from sokovan.domain.errors import SokovanError
from sokovan.domain.serving.replica import Endpoint
from sokovan.ports.agent_gateway import AgentGateway, AgentRefused
from sokovan.ports.runtime import RuntimeFailure

# Agents that have not answered after this are asked again in a later cycle.
ANSWER_S = 5.0
# For each endpoint whose agent answered, why the port is not that of its kernel; empty if it is.
PortOwners: TypeAlias = Callable[[Sequence[Endpoint]], Awaitable[Mapping[str, str]]]


class PortOwnership:
    """Connects to ports through their agents, which do so only for the kernel's own."""

    def __init__(self, gateway: AgentGateway) -> None:
        self._gateway = gateway

    async def __call__(self, endpoints: Sequence[Endpoint]) -> Mapping[str, str]:
        """The answers of agents, by endpoint; all are asked at once."""
        asked = {
            asyncio.ensure_future(self._problem(one)): one.endpoint_id
            for one in endpoints
            if self._gateway.connected(one.agent_id)
        }
        if not asked:
            return {}
        try:
            done, _ = await asyncio.wait(asked, timeout=ANSWER_S)
        finally:
            for task in asked:
                task.cancel()
        problems = {asked[task]: task.result() for task in done}
        return {name: problem for name, problem in problems.items() if problem is not None}

    async def _problem(self, endpoint: Endpoint) -> str | None:
        """Why the port is not the kernel's; None if the agent did not look."""
        agent, kernel = endpoint.agent_id, endpoint.kernel_id
        try:
            async with self._gateway.connect(agent, kernel, endpoint.attempt, endpoint.port):
                return ""
        except AgentRefused as refused:
            problem = refused.problem.removesuffix(f" [{refused.reason}]")
            return problem if refused.reason == RuntimeFailure.code else None
        except SokovanError:
            return None
