"""Small fleets for tests of their columns."""

from __future__ import annotations

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId, SessionId
from sokovan.domain.records import AgentRecord, Device, HeldDevice
from sokovan.domain.slots import ResourceSlot


def agent(name: str, *devices: str, kernels: int = 0, fault: str = "") -> AgentRecord:
    """An agent with these devices."""
    slots = ResourceSlot({"cuda.device": len(devices)} if devices else {})
    info = AgentInfo(AgentId(name), slots, kernel_count=kernels)
    return AgentRecord(info, 1, tuple([Device(one, "cuda.device", 1, fault) for one in devices]))


def hold(agent_id: str, device: str, session: str, user: str = "ada") -> HeldDevice:
    """A unit of a device that a session of a user holds."""
    return HeldDevice(AgentId(agent_id), device, 1, SessionId(session), f"job-{session}", "q", user, "north")


def holds(*those: HeldDevice) -> dict[AgentId, tuple[HeldDevice, ...]]:
    """Holds by agent."""
    found: dict[AgentId, tuple[HeldDevice, ...]] = {}
    for one in those:
        found[one.agent_id] = (*found.get(one.agent_id, ()), one)
    return found
