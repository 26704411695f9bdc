"""A cluster with something in every state, and everything in order."""

from __future__ import annotations

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AccessKey, AgentId, DeploymentId, ReplicaId, RouteId, SessionId
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.domain.lifecycle.deployment import DeploymentTrigger
from sokovan.domain.lifecycle.kernel import FreeProof, KernelTrigger
from sokovan.domain.lifecycle.replica import ReplicaPlace
from sokovan.domain.lifecycle.route import RouteTrigger
from sokovan.domain.lifecycle.session import Goal
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Keypair, Owner, User
from sokovan.domain.records import Change, Device
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.revision import RevisionSpec
from sokovan.domain.serving.route import RouteSpec
from sokovan.domain.session import SessionType
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.ports.allocation import AllocationContext
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.repositories.sessions import RequestKey
from sokovan.ports.storage import Fence
from sokovan.testing.stored_cluster import BY_AGENT, BY_COORDINATOR, BY_USER, StoredCluster

WITH_GPU = {"cpu": 500, "cuda.device": 1}
ALICE = Owner(user="alice", access_key=AccessKey("AKALICE"))
_STEPS = (
    ("preparing", KernelTrigger.PREPARATION_STARTED, BY_COORDINATOR),
    ("pulling", KernelTrigger.PULL_STARTED, BY_AGENT),
    ("prepared", KernelTrigger.IMAGE_READY, BY_AGENT),
    ("creating", KernelTrigger.CREATION_REQUESTED, BY_COORDINATOR),
    ("running", KernelTrigger.STARTED, BY_AGENT),
)


async def make_busy(cluster: StoredCluster) -> None:
    """Bring an empty cluster to life."""
    await _agents(cluster)
    await _owners(cluster)
    await _sessions_on_their_way(cluster)
    await _gangs(cluster)
    await _ends(cluster)
    await _lost_agents(cluster)
    await _dependencies(cluster)
    await _leaders(cluster)
    await _serving(cluster)
    for number in range(3):
        await _record(cluster, f"t{number}")
    # The owner of these holds more than the new limit allows, and may keep it.
    await cluster.put(ResourcePolicy("little", slots_max=SlotLimits({"cpu": 100})))


async def _place(cluster: StoredCluster, name: str, *agents: str, context: AllocationContext | None = None) -> None:
    placed = await cluster.place(name, *agents, context=context)
    assert placed.refused == {}


async def _agents(cluster: StoredCluster) -> None:
    for name in ("a1", "a2", "a3", "fenced", "gone"):
        await cluster.agent(name)
    await cluster.agent("arm", architecture="aarch64", labels={"disk": "fast"}, devices=False)
    shared = AgentInfo(AgentId("shared"), ResourceSlot({"cpu": 8000, "cuda.shares": 1000}))
    devices = [Device("gpu0", "cuda.shares", units=1000)]
    await cluster.store.run(lambda unit: unit.fleet.enrol(shared, BY_AGENT, devices=devices))


async def _owners(cluster: StoredCluster) -> None:
    little = ResourcePolicy("little", slots_max=SlotLimits({"cpu": 2000}), sessions_max=3)
    alice = User("alice", domain="default", policy="little")
    await cluster.put(little, Domain("default"), alice, Keypair(ALICE.access_key, "alice", policy="little"))
    for name in ("alice1", "alice2"):
        await cluster.submit(name, owner=ALICE)
        await _place(cluster, name, "a1")
    await cluster.submit("alice3", owner=ALICE)


async def _sessions_on_their_way(cluster: StoredCluster) -> None:
    await cluster.submit("pending", request=RequestKey("alice", "key-1", "digest"))
    await cluster.submit("pending", request=RequestKey("alice", "key-1", "digest"))
    for code in ("NOT_ENOUGH_FREE", "NOT_ENOUGH_FREE", "QUOTA_USER"):
        await _note(cluster, code)
    await cluster.submit("scheduled")
    await _place(cluster, "scheduled", "a2")
    for number, (name, _, _) in enumerate(_STEPS):
        await cluster.submit(name, slots=WITH_GPU)
        await _place(cluster, name, "a1" if number % 2 else "a2")
        for _, trigger, change in _STEPS[: number + 1]:
            await cluster.move(name, trigger, change)


async def _gangs(cluster: StoredCluster) -> None:
    await cluster.submit("gang", kernels=3, session_type=SessionType.BATCH)
    await _place(cluster, "gang", "a1", "a2", "a1")
    await cluster.start("gang")
    await cluster.submit("elastic", kernels=2, min_kernels=1)
    await _place(cluster, "elastic", "a1")
    await cluster.start("elastic")
    for name, amount in (("share1", 300), ("share2", 400)):
        await cluster.submit(name, slots={"cuda.shares": amount})
        await _place(cluster, name, "shared")


async def _ends(cluster: StoredCluster) -> None:
    await cluster.submit("cancelled")
    await cluster.stop("cancelled")
    for name in ("stopping", "forced", "forced-freed", "done", "failed", "unsent"):
        await cluster.submit(name, slots=WITH_GPU if name == "done" else None)
        await _place(cluster, name, "a3")
    for name in ("stopping", "forced", "forced-freed", "done", "failed"):
        await cluster.start(name)
    for name in ("stopping", "unsent"):
        await cluster.stop(name)
    for name in ("forced", "forced-freed"):
        await cluster.stop(name, Goal.FORCE)
    await cluster.move("done", KernelTrigger.EXITED, BY_AGENT, exit_code=0)
    await cluster.move("failed", KernelTrigger.EXITED, BY_AGENT, exit_code=1)
    for name in ("forced-freed", "done", "failed"):
        await cluster.free(name, FreeProof.AGENT_TOMBSTONE)
    await cluster.free("unsent", FreeProof.NEVER_SENT)


async def _lost_agents(cluster: StoredCluster) -> None:
    for name in ("fenced", "gone"):
        await cluster.submit(f"on-{name}", slots=WITH_GPU)
        await _place(cluster, f"on-{name}", name)
        await cluster.start(f"on-{name}")
        await cluster.move(f"on-{name}", KernelTrigger.FAILED, BY_AGENT)
    await cluster.agent("fenced", slots={"cpu": 4000, "cuda.device": 2}, architecture="aarch64")
    await cluster.free("on-fenced", FreeProof.INCARNATION_FENCED)
    for trigger, change in (
        (AgentTrigger.HEARTBEAT_MISSED, BY_COORDINATOR),
        (AgentTrigger.DECLARED_LOST, BY_COORDINATOR),
        (AgentTrigger.DECLARED_GONE, BY_USER),
    ):
        await _move_agent(cluster, "gone", trigger, change)
    await cluster.free("on-gone", FreeProof.HOST_GONE)
    # An agent enrols again with other attributes while kernels of its earlier incarnation still exist.
    await cluster.agent("a1", architecture="aarch64", labels={"rack": "r2"})


async def _dependencies(cluster: StoredCluster) -> None:
    await cluster.submit("after-done", dependencies=(SessionId("done"),))
    await _place(cluster, "after-done", "a2")
    await cluster.submit("after-failed", dependencies=(SessionId("failed"), SessionId("running")))


async def _leaders(cluster: StoredCluster) -> None:
    for holder in ("one", "two"):
        lease = await cluster.leases.acquire("scheduler", holder=holder, ttl_s=60)
        assert lease is not None
        fence = Fence(lease.name, lease.epoch)
        await cluster.submit(f"led-by-{holder}")
        await _place(cluster, f"led-by-{holder}", "a2", context=AllocationContext(who=holder, fence=fence))
        await _note(cluster, f"SEEN_BY_{holder.upper()}", fence=fence)
        await cluster.leases.release(lease)


async def _serving(cluster: StoredCluster) -> None:
    for name in ("chat", "code", "old"):
        await _deploy(cluster, name)
    chat = await cluster.store.read(lambda unit: unit.deployments.get(DeploymentId("chat")))
    await cluster.store.run(lambda unit: unit.deployments.scale(chat, 3, BY_COORDINATOR))
    await _move_deployment(cluster, "old", DeploymentTrigger.DELETE_REQUESTED, BY_USER)
    await _move_deployment(cluster, "old", DeploymentTrigger.REPLICAS_GONE, BY_COORDINATOR)
    for trigger in (RouteTrigger.CONFIGURED, RouteTrigger.DELETE_REQUESTED, RouteTrigger.CONFIGURATION_REMOVED):
        await _move_route(cluster, "old-route", trigger)


async def _deploy(cluster: StoredCluster, name: str) -> None:
    spec = DeploymentSpec(deployment_id=DeploymentId(name), name=name)
    route = RouteSpec(RouteId(f"{name}-route"), DeploymentId(name))
    await cluster.store.run(lambda unit: unit.deployments.create(spec, RevisionSpec(variant="vllm"), BY_USER))
    await cluster.store.run(lambda unit: unit.routes.create(route, BY_USER))
    if name == "old":
        return
    place = ReplicaPlace(DeploymentId(name), 1, 0, 1)
    await cluster.store.run(lambda unit: unit.replicas.create(ReplicaId(f"{name}-1"), place, "secret", BY_COORDINATOR))


async def _record(cluster: StoredCluster, target: str) -> None:
    entry = AuditEntry(who="admin", action="read", target=target, outcome="ok")
    await cluster.store.run(lambda unit: unit.audit.append(entry))


async def _note(cluster: StoredCluster, code: str, *, fence: Fence | None = None) -> None:
    reason = Change(who="scheduler", by=BY_COORDINATOR.by, code=code)
    await cluster.store.run(lambda unit: unit.sessions.note([SessionId("pending")], reason), fence=fence)


async def _move_agent(cluster: StoredCluster, name: str, trigger: AgentTrigger, change: Change) -> None:
    agent = await cluster.store.read(lambda unit: unit.fleet.get(AgentId(name)))
    await cluster.store.run(lambda unit: unit.fleet.move(agent, trigger, change))


async def _move_deployment(cluster: StoredCluster, name: str, trigger: DeploymentTrigger, change: Change) -> None:
    deployment = await cluster.store.read(lambda unit: unit.deployments.get(DeploymentId(name)))
    await cluster.store.run(lambda unit: unit.deployments.move(deployment, trigger, change))


async def _move_route(cluster: StoredCluster, name: str, trigger: RouteTrigger) -> None:
    route = await cluster.store.read(lambda unit: unit.routes.get(RouteId(name)))
    await cluster.store.run(lambda unit: unit.routes.move(route, trigger, BY_COORDINATOR))
