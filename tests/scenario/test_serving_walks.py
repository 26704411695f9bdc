"""Whatever users, proxies, engines and managers do in any order, a deployment ends as desired.

A walk is a seeded sequence of such events. Every move of a table that it makes is checked by
the store, and the invariants of all rows when the cluster is closed.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random  # noqa: TID251  # seeded: a test draws its events

import pytest

from sokovan.domain.errors import Conflict
from sokovan.domain.lifecycle.rollout import ROLLOUT, RolloutStatus
from sokovan.domain.serving.rollout import RolloutPolicy, RolloutStrategy
from sokovan.testing.served_cluster import ServedCluster, revision_of
from tests.scenario.test_serving_ablations import used_after_their_end
from tests.scenario.test_serving_lifecycles import CALLER, controller_of

pytestmark = pytest.mark.slow

# `make fuzz` takes many walks; otherwise a few.
SEEDS = range(200) if os.environ.get("SOKOVAN_EXAMPLES") == "fuzz" else range(6)
STEPS = 25
STRATEGIES = [
    RolloutPolicy(),
    RolloutPolicy(strategy=RolloutStrategy.CANARY, steps=(25, 100), hold_s=10),
    RolloutPolicy(strategy=RolloutStrategy.BLUE_GREEN, keep_s=10),
]


class Walk:
    """Events in a random order; users' requests that are refused change nothing."""

    def __init__(self, cluster: ServedCluster, seed: int) -> None:
        self.cluster, self.draws, self.revisions = cluster, Random(seed), 1  # noqa: S311  # draws for a test, no secret among them
        self.sick: set[str] = set()
        cluster.proxy.health = lambda endpoint: endpoint not in self.sick

    async def step(self) -> str:
        """One event, and some time; the event's name."""
        events: list[Callable[[], Awaitable[None]]] = [
            self.scale, self.scale, self.update, self.update, self.promote, self.roll_back,
            self.sicken, self.recover, self.fill, self.empty, self.exit, self.exit, self.be_replaced, self.be_deaf,
        ]  # fmt: skip
        event = self.draws.choice(events)
        with suppress(Conflict):  # a user's request that comes at the wrong moment
            await event()
        await self.cluster.serve_for(self.draws.choice([1, 4, 15]))
        return event.__name__

    async def scale(self) -> None:
        await self.cluster.rescale(self.draws.randrange(4))

    async def update(self) -> None:
        self.revisions += 1
        revision = revision_of(environment={"V": str(self.revisions)})
        key = (await self.cluster.deployment()).deployment_id
        policy = self.draws.choice(STRATEGIES)
        await controller_of(self.cluster).update(key, revision, CALLER, rollout=policy)

    async def promote(self) -> None:
        await controller_of(self.cluster).promote((await self.cluster.deployment()).deployment_id, CALLER)

    async def roll_back(self) -> None:
        await controller_of(self.cluster).roll_back((await self.cluster.deployment()).deployment_id, CALLER)

    async def sicken(self) -> None:
        self.sick |= set(self.draws.sample(names := await self.endpoints(), min(1, len(names))))

    async def recover(self) -> None:
        self.sick.clear()

    async def fill(self) -> None:
        self.cluster.proxy.outstanding.update(dict.fromkeys(await self.endpoints(), 1))

    async def empty(self) -> None:
        self.cluster.proxy.outstanding.clear()

    async def exit(self) -> None:
        [agent] = self.cluster.agents.all.values()
        running = sorted(agent.running())
        if running:
            await agent.ends(self.draws.choice(running), code=1)

    async def be_replaced(self) -> None:
        """Another manager leads; the first one comes to know."""
        for coordinator in (self.cluster.deployments, self.cluster.routes):
            await coordinator.close()
        self.cluster.deployments, self.cluster.routes = self.cluster.new_serving()

    async def be_deaf(self) -> None:
        self.cluster.proxy.acknowledges = not self.cluster.proxy.acknowledges

    async def endpoints(self) -> list[str]:
        return sorted(one.endpoint.endpoint_id for one in await self.cluster.replicas() if one.endpoint is not None)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_deployment_is_as_desired_after_any_walk_and_leaves_nothing(seed: int) -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(replicas=2)
        await cluster.converge()
        walk = Walk(cluster, seed)
        walked = [await walk.step() for _ in range(STEPS)]

        await walk.recover()
        await walk.empty()
        cluster.proxy.acknowledges = True
        await cluster.rescale(2)
        record, ended = await cluster.deployment(), False
        for _ in range(60):  # crash loops end after ten minutes, rollouts by themselves or by a promotion
            await cluster.serve_for(60, step_s=10)
            record = await cluster.deployment()
            if await rollout_status(cluster) is RolloutStatus.AWAITING_PROMOTION:
                await walk.promote()
            ended = await rollout_status(cluster) in {None, *ROLLOUT.terminal}
            if ended and await cluster.statuses() == ["active", "active"] and record.status == "running":
                break
        assert ended, walked
        assert await cluster.statuses() == ["active", "active"], walked
        assert not await used_after_their_end(cluster), walked

        await controller_of(cluster).delete(record.deployment_id, CALLER)
        await cluster.serve_for(400, step_s=10)
        assert (await cluster.deployment()).status == "terminated", walked
        assert await cluster.replicas() == [], walked
        assert await rollout_status(cluster) in {None, *ROLLOUT.terminal}, walked
        [agent] = cluster.agents.all.values()
        assert list(agent.running()) == [], walked


async def rollout_status(cluster: ServedCluster) -> RolloutStatus | None:
    """The status of the last rollout."""
    key = (await cluster.deployment()).deployment_id
    found = await cluster.store.read(lambda unit: unit.rollouts.newest(key, limit=1))
    return found[0].status if found else None
