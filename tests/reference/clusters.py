"""Random small clusters and sessions; a theme selects their features."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import strategies as st

from sokovan.domain.cluster.agent import PORTS_LABEL, AgentInfo
from sokovan.domain.cluster.agent_health import AgentHealth
from sokovan.domain.cluster.booking import Booking, BookingKind
from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue, QueueState
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.constraints.affinity import AffinityTerm
from sokovan.domain.constraints.label_expression import LabelExpression, LabelOperator
from sokovan.domain.constraints.placement import PlacementConstraints
from sokovan.domain.constraints.taint import TAINT_PREFIX, Toleration
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.owners.past_usage import UsageScope
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import Partition, SessionType, TopologyConstraint, TopologyMode
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.scheduling.profile import VALIDATORS_DEFAULT, SchedulingProfile
from sokovan.scheduling.snapshot import (
    FairSharePolicy,
    KernelWorkload,
    OwnerUsage,
    Reservation,
    SessionWorkload,
    SystemSnapshot,
    UsageRecord,
)
from tests.reference.themes import Dice, Host, Theme

NOW_MS = 1_000_000
HALF_LIFE_S = 100

MACHINES: tuple[dict[str, int], ...] = (
    {"cpu": 4, "mem": 8},
    {"cpu": 2, "mem": 4},
    {"cpu": 4, "mem": 4},
    {"cpu": 8, "mem": 16},
    {"cpu": 3, "mem": 5},
    {"cpu": 4, "mem": 8, "cuda.device": 2},
    {"cpu": 8, "mem": 8, "cuda.device": 4},
    {"cpu": 6, "mem": 6, "cuda.device": 1, "cuda.shares": 3},
)
REQUESTS: tuple[dict[str, int], ...] = (
    {"cpu": 1},
    {"cpu": 2, "mem": 2},
    {"cpu": 1, "mem": 3},
    {"mem": 2},
    {"cpu": 3},
    {"cpu": 1, "cuda.device": 1},
    {"cpu": 4, "mem": 4},
    {"cpu": 2, "cuda.device": 2},
    {"cpu": 1, "cuda.shares": 1},
    {"cpu": 7},
    {"cpu": 1, "fpga": 1},
)
SLOTS = ("cpu", "mem", "cuda.device")
SELECTORS = ("concentrated", "dispersed", "roundrobin", "legacy")
SEQUENCERS = ("fifo", "lifo", "drf", "fair-share")
ACTIONS = (("allocate", "backfill"), ("allocate",), ("enqueue", "allocate", "backfill"), ("enqueue", "allocate"))


@st.composite
def clusters(draw: st.DrawFn, theme: Theme) -> SystemSnapshot:
    """A snapshot with the features of the theme only."""
    dice = Dice(draw)
    stride = draw(st.sampled_from((1, 5, 12)))
    names = [f"n{stride * number % 13:02}" for number in range(1, 13)]
    hosts = [Host(name, dice.among(MACHINES)) for name in names[: dice.number(1, theme.agents)]]
    for host in hosts:
        _occupy(dice, host, theme)
    queues = _queues(dice, theme)
    sessions = [
        _session(dice, theme, f"s{stride * number % 13:02}", hosts=hosts, queues=queues)
        for number in range(1, dice.number(1, theme.sessions) + 1)
    ]
    return SystemSnapshot(
        agents=tuple(_agent(dice, host, theme) for host in hosts),
        sessions=tuple(sessions),
        hypernodes=_hypernodes(dice, hosts, theme.tiers),
        queues=tuple(queues),
        scaling_group=_scaling_group(dice, theme),
        now_ms=NOW_MS,
        usage=_usage(dice, theme),
        limits=_limits(dice, theme),
        outcomes={SessionId("done"): True, SessionId("broken"): False},
        history=_history(dice, theme),
        fair_share=FairSharePolicy(HALF_LIFE_S, {"u1": 2}, {"g2": 3}, {"cuda.device": 5}),
        reservations=_reservations(dice, theme, sessions, hosts),
        cursors={ScalingGroupName("default"): AgentId(dice.one_of(*names[:4]))} if dice.chance(5) else {},
        bookings=_bookings(dice, names[:5]) if theme.timed else (),
    )


@st.composite
def profiles(draw: st.DrawFn, theme: Theme) -> SchedulingProfile:
    """A profile with the plugins that the theme names."""
    profile = SchedulingProfile(
        sequencer=draw(st.sampled_from(theme.sequencers)),
        selector=draw(st.sampled_from(theme.selectors)),
        queue_policy=draw(st.sampled_from(theme.policies)),
        hierarchy=theme.queues > 1 and draw(st.booleans()),
        actions=draw(st.sampled_from(theme.actions)),
        fit_error_cache=draw(st.booleans()),
        prefer_lower_tier=theme.tiers > 0 and draw(st.booleans()),
        reserve_depth=draw(st.integers(0, 2)) if theme.timed else 8,
    )
    if theme.shards:
        profile = replace(profile, shard="east", shard_mode=draw(st.sampled_from(("none", "soft", "hard"))))
    if theme.limits and draw(st.booleans()):
        profile = replace(profile, validators=tuple(draw(st.permutations(VALIDATORS_DEFAULT))))
    return profile


def _occupy(dice: Dice, host: Host, theme: Theme) -> None:
    """Usage on a host that belongs to no session of the snapshot."""
    if theme.busy and dice.chance(5):
        host.run(dice.among(REQUESTS[:6]), leaves=theme.releasing and dice.chance(7))
    if theme.releasing and dice.chance(5):
        host.run({slot: host.slots[slot] - host.used[slot] for slot in ("cpu", "mem")}, leaves=True)
    if theme.overcommitted and dice.chance(3):
        host.run({"cpu": dice.number(1, 30)}, leaves=dice.chance(3), force=True)


def _agent(dice: Dice, host: Host, theme: Theme) -> AgentInfo:
    info = AgentInfo(
        AgentId(host.name),
        ResourceSlot(host.slots),
        occupied_slots=ResourceSlot(host.used),
        releasing_slots=ResourceSlot(host.leaving),
        kernel_count=host.kernels,
        releasing_count=host.kernels_leaving,
    )
    if theme.shards and dice.chance(8):
        info = replace(info, shard=dice.one_of("east", "west"))
    if theme.constrained and dice.chance(4):
        info = replace(info, labels={"zone": dice.one_of("a", "b"), TAINT_PREFIX + "team": dice.one_of("x", "y")})
    if not theme.picky:
        return info
    return replace(
        info,
        labels={
            **info.labels,
            PORTS_LABEL: "8080-8082",
            **({"zone": dice.one_of("a", "b")} if dice.chance(7) else {}),
            **({"sokovan.runtime": dice.one_of("process", "docker", "fake")} if dice.chance(3) else {}),
        },
        leased_ports=dice.leased_ports(),
        kernels_max=dice.number(0, 4) if dice.chance(4) else None,
        status=AgentStatus.DRAINING if dice.chance(2) else AgentStatus.ALIVE,
        health=AgentHealth(failing_ms=1) if dice.chance(1) else info.health,
        architecture="aarch64" if dice.chance(2) else info.architecture,
    )


def _session(dice: Dice, theme: Theme, name: str, *, hosts: list[Host], queues: list[Queue]) -> SessionWorkload:
    count = dice.number(1, theme.kernels)
    like = _kernel(dice, theme, name, 0)
    kernels = [_kernel(dice, theme, name, i) if theme.mixed and dice.chance(4) else like for i in range(count)]
    kernels = [replace(kernel, kernel_id=KernelId(f"{name}.{i}"), meets=count > 1) for i, kernel in enumerate(kernels)]
    if theme.running and dice.chance(4):
        kernels = [_perhaps_running(dice, kernel, hosts, theme) for kernel in kernels]
    owner = _owner(dice, theme)
    if theme.constrained:
        constraints = _constraints(dice, owner, tiers=theme.tiers)
        kernels = [replace(kernel, constraints=constraints) for kernel in kernels]
    session = SessionWorkload(
        SessionId(name),
        tuple(kernels),
        submitted=dice.number(0, 4),
        owner=owner,
        queue=QueueName(dice.one_of(*(str(q.name) for q in queues if q.name != ROOT_QUEUE), "other"))
        if theme.queues
        else queues[dice.number(0, len(queues) - 1)].name,
        priority=dice.number(0, 1) * 10,
    )
    if theme.elastic and dice.chance(5):
        session = replace(session, min_kernels=dice.number(0, count))
    staying = sum(1 for kernel in kernels if not kernel.releasing)
    if staying < session.gang_size:
        session = replace(session, min_kernels=staying)
    if theme.limits and dice.chance(4):
        session = _held_back(dice, session)
    if theme.limits and dice.chance(2):
        session = replace(session, session_type=SessionType.SYSTEM, starts_at_ms=None)
    if theme.timed:
        session = _timed(dice, session)
    if theme.loans:
        session = replace(session, borrow=dice.chance(6), grace_ms=dice.number(0, 2) * 10_000)
    if theme.arrays and dice.chance(6):
        array = dice.one_of("x", "y")
        session = replace(session, array=array, array_limit={"x": 1, "y": 2}[array])
    return _shaped(dice, theme, session)


def _timed(dice: Dice, session: SessionWorkload) -> SessionWorkload:
    """A session with a time limit, or in a booking; few times, so that each is tried in its order."""
    limit = (1, 2, 4)[dice.number(0, 2)] if dice.chance(7) else None
    since = None if session.waits else NOW_MS - dice.number(0, 1)
    booking = dice.one_of("b1", "b2", "b3") if dice.chance(3) else ""
    timed = replace(session, time_limit_ms=limit, running_since_ms=since, booking=booking)
    return replace(timed, borrow=dice.chance(4), grace_ms=dice.number(0, 2) * 5_000, preemptible=dice.chance(7))


def _bookings(dice: Dice, agents: list[str]) -> tuple[Booking, ...]:
    """Up to two bookings: over, under way or to come, for some users, or maintenance."""
    found = []
    for name in ("b1", "b2")[: dice.number(0, 2)]:
        begins = NOW_MS + dice.number(-2, 2)
        some = tuple(agent for agent in agents if dice.chance(5)) or (agents[0],)
        booking = Booking(name, begins, begins + dice.number(1, 3), agents=some, users=("u1",), release_unused_s=0)
        if dice.chance(6):
            booking = replace(booking, release_unused_s=600)
        if dice.chance(2):
            booking = replace(booking, users=(), kind=BookingKind.MAINTENANCE)
        if dice.chance(4):
            # Some sessions have to leave now, or may borrow its agents until then.
            begins = NOW_MS + dice.number(0, 15) * 5_000
            return_s = (None, 0, 5, 10)[dice.number(0, 3)]
            booking = replace(booking, from_ms=begins, to_ms=begins + dice.number(1, 3), return_s=return_s)
        found.append(booking)
    return tuple(found)


def _shaped(dice: Dice, theme: Theme, session: SessionWorkload) -> SessionWorkload:
    """Minimums per group, partitions and topology, as far as the kernels allow them."""
    if theme.groups and dice.chance(6):
        sizes = Counter(kernel.group for kernel in session.kernels if not kernel.releasing)
        session = replace(session, group_minimums={group: dice.number(0, size) for group, size in sizes.items()})
    if theme.tiers and dice.chance(7):
        session = replace(session, topology=_closeness(dice))
    if not theme.partitions or not dice.chance(7):
        return session
    staying = [kernel for kernel in session.kernels if not kernel.releasing]
    sizes = Counter(kernel.labels["instance"] for kernel in staying if "instance" in kernel.labels)
    size = dice.number(1, 2)
    whole = sum(1 for times in sizes.values() if times >= size)
    topology = _closeness(dice) if theme.tiers and dice.chance(5) else None
    partition = Partition("parts", "instance", size, dice.number(0, whole), topology)
    return replace(session, partitions=(partition,))


def _scaling_group(dice: Dice, theme: Theme) -> ScalingGroup:
    group = ScalingGroup(ScalingGroupName("default"), slot_priority=("cuda.device", "mem", "cpu"))
    if not theme.best_effort or dice.chance(5):
        return group
    return replace(group, best_effort_per_agent_max=dice.number(0, 3), best_effort_per_user_max=dice.number(0, 4))


def _closeness(dice: Dice) -> TopologyConstraint:
    if dice.chance(4):
        return TopologyConstraint(TopologyMode.SOFT)
    if dice.chance(2):
        return TopologyConstraint(TopologyMode.HARD, dice.one_of("rack", "row", "unheard-of"))
    return TopologyConstraint(TopologyMode.HARD, dice.number(1, 3) if dice.chance(8) else None)


def _kernel(dice: Dice, theme: Theme, session: str, index: int) -> KernelWorkload:
    slots = dice.among(REQUESTS if dice.chance(2) else REQUESTS[:6])
    if theme.best_effort and dice.chance(3):
        slots = {}
    kernel = KernelWorkload(KernelId(f"{session}.{index}"), ResourceSlot(slots))
    if theme.mixed and dice.chance(2):
        kernel = replace(kernel, priority=dice.number(0, 2))
    if theme.groups:
        kernel = replace(kernel, group=dice.one_of("master", "worker"))
    if theme.partitions and dice.chance(8):
        kernel = replace(kernel, labels={"instance": dice.one_of("w1", "w2", "w3")})
    if theme.nominated and dice.chance(3):
        kernel = replace(kernel, nominated=AgentId(dice.one_of("n01", "n05", "n12", "gone")))
    if theme.picky and dice.chance(3):
        kernel = replace(kernel, require={"zone": dice.one_of("a", "b")})
    if theme.picky and dice.chance(3):
        kernel = replace(kernel, image=dice.one_of("host", "python"), serves=dice.chance(3))
    if theme.picky and dice.chance(2):
        kernel = replace(kernel, ports=dice.ports())
    if theme.picky and dice.chance(1):
        kernel = replace(kernel, architecture="aarch64")
    if theme.picky and dice.chance(3):
        # One that is avoided, and one that may be used again.
        avoided = AgentId(dice.one_of("n01", "n05", "n12"))
        kernel = replace(kernel, avoid=((avoided, NOW_MS + 1), (AgentId("n02"), NOW_MS)))
    return kernel


def _constraints(dice: Dice, owner: Owner, *, tiers: int) -> PlacementConstraints:
    where = LabelExpression("zone", LabelOperator.NOT_IN, (dice.one_of("a", "b"),))
    labels = {"app": dice.one_of("web", "db")} if dice.chance(7) else {}
    return PlacementConstraints(
        project=(owner.domain, owner.group),
        labels=tuple(labels.items()),
        where=(where,) if dice.chance(3) else (),
        tolerations=(Toleration("team", dice.one_of("x", "y") if dice.chance(5) else None),) if dice.chance(6) else (),
        affinity=(_term(dice, tiers),) if dice.chance(3) else (),
        anti_affinity=(_term(dice, tiers),) if dice.chance(4) else (),
    )


def _term(dice: Dice, tiers: int) -> AffinityTerm:
    within = dice.one_of("agent", "rack", "row", "unheard-of") if tiers else "agent"
    return AffinityTerm((("app", dice.one_of("web", "db")),), dice.number(1, 4) if tiers and dice.chance(3) else within)


def _perhaps_running(dice: Dice, kernel: KernelWorkload, hosts: list[Host], theme: Theme) -> KernelWorkload:
    if not dice.chance(5):
        return kernel
    host = hosts[dice.number(0, len(hosts) - 1)]
    leaves = theme.releasing and dice.chance(4)
    if not host.run(dict(kernel.slots), leaves=leaves):
        return kernel
    return replace(kernel, agent=AgentId(host.name), releasing=leaves)


def _owner(dice: Dice, theme: Theme) -> Owner:
    user = f"u{dice.number(1, theme.owners)}"
    if not theme.limits:
        return Owner(user=user)
    return Owner(user, dice.one_of("g1", "g2"), "default", AccessKey(dice.one_of(f"k-{user}", f"l-{user}")))


def _held_back(dice: Dice, session: SessionWorkload) -> SessionWorkload:
    if dice.chance(2):
        return replace(session, gates=("user",))
    if dice.chance(5):
        return replace(session, dependencies=(SessionId(dice.one_of("done", "broken", "s01", "s05")),))
    return replace(session, session_type=SessionType.BATCH, starts_at_ms=NOW_MS + dice.number(-1, 1))


def _hypernodes(dice: Dice, hosts: list[Host], tiers: int) -> tuple[HyperNode, ...]:
    """Racks of agents and rows of racks; some agents are in no rack."""
    nodes: list[HyperNode] = []
    members = [host.name for host in hosts]
    for tier, kind in ((1, "rack"), (2, "row")):
        if tiers < tier or not dice.chance(9):
            return tuple(nodes)
        homes = [dice.number(0, 3 if tier == 1 else 2) for _ in members]
        for home in sorted({*homes} - {0}):
            inside = tuple(name for name, where in zip(members, homes, strict=True) if where == home)
            nodes.append(HyperNode(f"{kind}{home}", tier, inside, tier_name=kind))
        members = [node.name for node in nodes]
        if not members:
            return ()
    return tuple(nodes)


def _queues(dice: Dice, theme: Theme) -> list[Queue]:
    if not theme.queues:
        return [Queue(QueueName(name)) for name in (("default", "second") if theme.timed else ("default",))]
    names = ["qc", "qa", "qd", "qb"][: dice.number(1, theme.queues)]
    queues: list[Queue] = []
    for name in names:
        parents = ["root", "root", *(str(queue.name) for queue in queues), "nowhere"]
        queue = Queue(
            QueueName(name),
            weight=dice.number(1, 3),
            priority=dice.number(0, 1),
            state=QueueState.CLOSED if dice.chance(1) else QueueState.OPEN,
            parent=QueueName(dice.one_of(*parents)),
        )
        queue = _shared(dice, queue)
        if theme.loans and dice.chance(7):
            more = ResourceSlot({"cpu": dice.number(1, 6), "mem": dice.number(1, 6)})
            queue = replace(queue, guarantee=more, deserved=SlotLimits({}), capability=SlotLimits({}))
            queue = replace(queue, return_s=dice.number(0, 1) * 10)
        queues.append(queue)
    if dice.chance(1):
        queues.append(Queue(ROOT_QUEUE, capability=SlotLimits({"cpu": dice.number(0, 12)})))
    return queues


def _shared(dice: Dice, queue: Queue) -> Queue:
    """A queue with some of: a guarantee, a deserved share above it, a capability above that."""
    guarantee: dict[str, int] = {}
    deserved: dict[str, int] = {}
    capability: dict[str, int] = {}
    for slot in SLOTS:
        least = 0
        if dice.chance(2):
            least = guarantee[slot] = dice.number(0, 3)
        if dice.chance(4):
            least = deserved[slot] = least + dice.number(0, 4)
        if dice.chance(4):
            capability[slot] = least + dice.number(0, 6)
    return replace(
        queue, guarantee=ResourceSlot(guarantee), deserved=SlotLimits(deserved), capability=SlotLimits(capability)
    )


def _usage(dice: Dice, theme: Theme) -> dict[Scope, dict[str, OwnerUsage]]:
    if theme.owners == 1:
        return {}
    amounts = [OwnerUsage(ResourceSlot({"cpu": dice.number(0, 4), "mem": dice.number(0, 2)})) for _ in range(2)]
    keypair = OwnerUsage(ResourceSlot({"cpu": dice.number(0, 2)}), sessions=dice.number(0, 2))
    return {Scope.USER: {"u1": amounts[0], "u2": amounts[1]}, Scope.KEYPAIR: {"k-u1": keypair}}


def _limits(dice: Dice, theme: Theme) -> dict[Scope, dict[str, ResourcePolicy]]:
    if not theme.limits:
        return {}
    names = {
        Scope.KEYPAIR: ("k-u1", "k-u2", "l-u1"),
        Scope.USER: ("u1", "u2"),
        Scope.GROUP: ("g1",),
        Scope.DOMAIN: ("default",),
    }
    return {scope: {owner: _policy(dice) for owner in owners if dice.chance(4)} for scope, owners in names.items()}


def _policy(dice: Dice) -> ResourcePolicy:
    return ResourcePolicy(
        "policy",
        slots_max=SlotLimits({slot: dice.number(0, 9) for slot in SLOTS[:2] if dice.chance(5)}),
        sessions_max=dice.number(0, 3) if dice.chance(4) else None,
        pending_sessions_max=dice.number(0, 3) if dice.chance(3) else None,
        pending_slots_max=SlotLimits({"cpu": dice.number(0, 12)}) if dice.chance(3) else SlotLimits(),
    )


def _history(dice: Dice, theme: Theme) -> tuple[UsageRecord, ...]:
    """Usage whole half-lives ago, so that the decay is exact; slots have an explicit weight."""
    if "fair-share" not in theme.sequencers:
        return ()
    records = []
    for _ in range(dice.number(0, 6)):
        scope = UsageScope(dice.one_of(*UsageScope))
        name = f"u{dice.number(1, 3)}" if scope is UsageScope.USER else f"g{dice.number(1, 2)}"
        held = dice.number(1, 3) if dice.chance(3) else 0
        at_ms = NOW_MS - dice.number(0, 3) * HALF_LIFE_S * 1000
        slot = dice.one_of("", "cuda.device") if not held else "cuda.device"
        records.append(UsageRecord(name, at_ms, dice.number(0, 8), scope, slot, held))
    return tuple(records)


def _reservations(
    dice: Dice, theme: Theme, sessions: list[SessionWorkload], hosts: list[Host]
) -> tuple[Reservation, ...]:
    """Reservations of an earlier cycle; the agents may be gone or full."""
    found = []
    for session in sessions:
        waiting = [kernel.kernel_id for kernel in session.kernels if kernel.agent is None]
        if theme.promised and waiting and dice.chance(3):
            agents = [AgentId(hosts[dice.number(0, len(hosts) - 1)].name) for _ in waiting]
            found.append(Reservation(session.session_id, tuple(zip(waiting, agents, strict=True))))
    return tuple(found)
