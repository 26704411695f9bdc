"""Contract of `ports.allocation` for devices."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.records import Device
from sokovan.domain.slots import ResourceSlot
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.allocation import agents, sessions
from sokovan.testing.stored_cluster import BY_AGENT, StoredCluster

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
GPU = "cuda.device"


async def a_device_has_one_kernel(cluster: StoredCluster) -> None:
    """Within a session, across sessions, and with concurrent callers."""
    [agent] = await agents(cluster, 1, {GPU: 6})
    [gang] = await sessions(cluster, 1, {GPU: 2}, kernels=2)
    singles = await sessions(cluster, 3, {GPU: 1})
    await asyncio.gather(cluster.place(gang, agent, agent), *(cluster.place(name, agent) for name in singles))
    records = [await cluster.session(name) for name in (gang, *singles)]
    given = [device for record in records for kernel in record.kernels for device in kernel.devices.get(GPU, ())]
    expect(len(given) == len(set(given)) == 6, f"devices given out were {given}")


async def a_freed_device_is_allocated_again(cluster: StoredCluster) -> None:
    """No other device is affected."""
    [agent] = await agents(cluster, 1, {GPU: 2})
    first, second, third = await sessions(cluster, 3, {GPU: 1})
    for name in (first, second):
        await cluster.place(name, agent)
    had = (await cluster.session(first)).kernels[0].devices
    await cluster.stop(first)
    await cluster.free(first, FreeProof.NEVER_SENT)
    await cluster.place(third, agent)
    expect((await cluster.session(third)).kernels[0].devices == had, "the freed device was not given again")


async def shares_of_a_device_add_up_to_the_whole(cluster: StoredCluster) -> None:
    """Several kernels share a device; none gets more than is left."""
    agent = cluster.new("a")
    info = AgentInfo(AgentId(agent), ResourceSlot({"cuda.shares": 20}))
    devices = [Device(f"gpu{index}", "cuda.shares", units=10) for index in range(2)]
    await cluster.store.run(lambda unit: unit.fleet.enrol(info, BY_AGENT, devices=devices))
    names = await sessions(cluster, 5, {"cuda.shares": 4})
    batches = [await cluster.place(name, agent) for name in names]
    given = [(await cluster.session(name)).kernels[0].devices.get("cuda.shares") for name in names]
    expect(given[:4] == [("gpu0",), ("gpu0",), ("gpu1",), ("gpu1",)], f"shares were given as {given}")
    expect(given[4] == ("gpu0", "gpu1") and not batches[4].refused, "what two devices have left was not used")
    [late] = await sessions(cluster, 1, {"cuda.shares": 1})
    expect((await cluster.place(late, agent)).refused, "more was given than there is")


CHECKS: tuple[Check, ...] = (
    a_device_has_one_kernel,
    a_freed_device_is_allocated_again,
    shares_of_a_device_add_up_to_the_whole,
)
