"""Imported by the fork server alone: a session's life, so that its statements are compiled.

A process that a test starts, and mostly kills soon, inherits them.
"""

import asyncio

import tests.shared_statements  # noqa: F401  # what is compiled here is kept for every store
from sokovan.testing.stored_cluster import StoredCluster
from tests.integration.crowds import violations
from tests.integration.embedded_work import AGENTS, one_life


async def _live() -> None:
    async with StoredCluster.open() as cluster:
        for agent in AGENTS:
            await cluster.agent(agent, devices=False)
        await one_life(cluster, "warm")
        await violations(cluster.store)


asyncio.run(_live())
