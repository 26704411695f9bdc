"""Scenarios: a cluster, the sessions submitted to it, and the expected decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.booking import RELEASE_UNUSED_DEFAULT_S, Booking, BookingKind
from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue, QueueState, QueueTree
from sokovan.domain.cluster.topology import HyperNode, HyperNodeTree
from sokovan.domain.errors import InvalidInput, InvalidSpec, listed, quoted
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, SessionId, checked_name
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.owners.tenancy import DEFAULT_OWNER_NAME, Owner
from sokovan.domain.session import Partition, Preemption, SessionType, TopologyConstraint, TopologyMode
from sokovan.domain.slot_notation import parse_amount, read_slots
from sokovan.domain.slots import ResourceSlot, SlotLimits
from sokovan.scheduling.profile import SchedulingProfile, profile_from
from sokovan.scheduling.snapshot import FairSharePolicy, KernelWorkload, SessionWorkload, UsageRecord
from sokovan.simulator.constraints import read_constraints, read_taints
from sokovan.simulator.documents import ScenarioLocation, ScenarioValue, read_documents

E = TypeVar("E", bound=StrEnum)
R = TypeVar("R")

CYCLES_MAX = 10_000

_TOP = (
    "scenario", "source", "profile", "cycles", "agents", "hypernodes", "queues", "sessions", "expect",
    "limits", "now", "cycle_s", "history", "fair_share", "outcomes", "cursor", "bookings",
)  # fmt: skip
_AGENT = ("slots", "labels", "taints", "arch", "max_kernels", "status", "shard", "images")
_QUEUE = (
    "weight",
    "priority",
    "state",
    "parent",
    "reclaimable",
    "capability",
    "deserved",
    "guarantee",
    "min_runtime",
    "return_s",
)
_SESSION = (
    "queue", "user", "group", "domain", "keypair", "type", "priority", "min_kernels", "group_min", "preemptible",
    "preemption", "topology", "partitions", "hypernode", "depends", "starts_at", "gates", "kernels",
    "labels", "where", "tolerations", "affinity", "anti_affinity", "runs_for", "checkpoint",
    "time_limit", "grace", "deadline", "booking", "borrow", "loan", "migratable",
)  # fmt: skip
_KERNEL = (
    "group", "slots", "require", "labels", "arch", "at", "nominated", "priority", "preemptible", "releasing", "image",
)  # fmt: skip
_BOOKING = ("kind", "from", "to", "agents", "hypernode", "users", "groups", "queues", "release_unused_s", "return_s")
_LIMIT = ("slots", "sessions", "pending", "pending_slots")
_EXPECT = (
    "placed", "placed_count", "placed_in", "placed_within", "same_hypernode_tier", "evicted", "reserved", "pending",
    "reason", "lost", "starts_at", "moved",
)  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    """One validated scenario."""

    name: str
    file: str
    line: int
    profile: SchedulingProfile
    cycles: int
    agents: tuple[AgentInfo, ...]
    hypernodes: tuple[HyperNode, ...]
    queues: tuple[Queue, ...]
    sessions: tuple[SessionWorkload, ...]
    expect: Mapping[str, object]
    limits: Mapping[Scope, Mapping[str, ResourcePolicy]] = field(default_factory=dict)
    now_ms: int = 0
    cycle_ms: int = 0
    history: tuple[UsageRecord, ...] = ()
    fair_share: FairSharePolicy = field(default_factory=FairSharePolicy)
    outcomes: Mapping[SessionId, bool] = field(default_factory=dict)
    cursor: AgentId | None = None
    bookings: tuple[Booking, ...] = ()
    profile_locations: Mapping[str, ScenarioLocation] = field(default_factory=dict)


def read_scenarios(text: str, file: str) -> Iterator[Scenario]:
    """Every scenario of a file. Raises InvalidScenario."""
    seen: dict[str, int] = {}
    for document in read_documents(text, file):
        entries = document.items(_TOP)
        if "scenario" not in entries:
            raise document.location.error("a scenario needs a name", hint="begin it with `scenario: what it shows`")
        name = entries["scenario"].text()
        if name in seen:
            raise entries["scenario"].location.error(f"line {seen[name]} has a scenario of the same name")
        seen[name] = document.location.line
        yield _Reader(entries).scenario(name, document)
    if not seen:
        raise ScenarioLocation(file, 1).error(
            "the file has no scenario", hint="begin one with `scenario: what it shows`"
        )


class _Reader:
    """Reads one scenario; every error names its location."""

    def __init__(self, entries: dict[str, ScenarioValue]) -> None:
        self._entries = entries
        self._agents: dict[str, AgentInfo] = {}
        self._kernels: set[str] = set()
        self._now_ms = self._get("now", lambda value: value.number(least=0) * 1000) or 0

    def scenario(self, name: str, document: ScenarioValue) -> Scenario:
        """The scenario of a document."""
        profile = self._get("profile", _profile)
        self._agents = {key: _agent(key, value) for key, value in self._section("agents").items()}
        hypernodes = self._hypernodes()
        queues = self._queues()
        sessions = tuple(
            self._session(key, value, index) for index, (key, value) in enumerate(self._section("sessions").items())
        )
        now_ms = self._now_ms
        return Scenario(
            name=name,
            file=document.location.file,
            line=document.location.line,
            profile=profile or SchedulingProfile(),
            cycles=self._get("cycles", lambda value: value.number(least=1, most=CYCLES_MAX)) or 1,
            agents=tuple(self._agents.values()),
            hypernodes=hypernodes,
            queues=queues,
            sessions=sessions,
            expect=self._expect({session.session_id for session in sessions}),
            limits=self._limits(),
            now_ms=now_ms,
            cycle_ms=self._get("cycle_s", lambda value: value.number(least=0) * 1000) or 0,
            history=self._history(now_ms),
            fair_share=self._get("fair_share", _fair_share) or FairSharePolicy(),
            outcomes={SessionId(key): value.flag() for key, value in self._section("outcomes").items()},
            cursor=self._get("cursor", self._agent_name),
            bookings=tuple(self._booking(name, value) for name, value in self._section("bookings").items()),
            profile_locations={key: value.location for key, value in self._section("profile").items()},
        )

    def _section(self, name: str) -> dict[str, ScenarioValue]:
        return self._entries[name].mapping() if name in self._entries else {}

    def _get(self, name: str, read: Callable[[ScenarioValue], R]) -> R | None:
        return read(self._entries[name]) if name in self._entries else None

    def _agent_name(self, value: ScenarioValue) -> AgentId:
        name = value.text()
        if name not in self._agents:
            raise value.location.error(f"there is no agent {name!r}", hint=f"agents are {listed(self._agents)}")
        return AgentId(name)

    def _hypernodes(self) -> tuple[HyperNode, ...]:
        nodes = []
        for name, value in self._section("hypernodes").items():
            given = value.items(("tier", "tier_name", "members"))
            members = tuple(member.text() for member in given["members"].sequence()) if "members" in given else ()
            tier = given["tier"].number() if "tier" in given else 1
            tier_name = given["tier_name"].text() if "tier_name" in given else None
            node = _checked(value, lambda: HyperNode(name, tier, members, tier_name))  # noqa: B023  # called at once
            nodes.append(node)
        if nodes:
            _checked(self._entries["hypernodes"], lambda: HyperNodeTree(self._agents, nodes))
        return tuple(nodes)

    def _queues(self) -> tuple[Queue, ...]:
        queues = {name: _queue(name, value) for name, value in self._section("queues").items()}
        for name, value in self._section("queues").items():
            parent = queues[name].parent
            if parent != ROOT_QUEUE and parent not in queues:
                raise value.mapping()["parent"].location.error(f"there is no queue {str(parent)!r}")
        if queues:
            _checked(self._entries["queues"], lambda: QueueTree(queues.values()))
        return tuple(queues.values())

    def _session(self, name: str, value: ScenarioValue, index: int) -> SessionWorkload:
        given = value.items(_SESSION)
        _checked(value, lambda: checked_name(name, what="session"))
        kernels = [self._kernel(key, item) for key, item in _mapping_at(given, "kernels").items()]
        if not kernels:
            raise value.location.error("a session has at least one kernel")
        hypernode = given.get("hypernode")
        if hypernode is not None and hypernode.text() not in self._section("hypernodes"):
            raise hypernode.location.error(f"there is no hypernode {hypernode.text()!r}")
        starts = given["starts_at"].number(least=0) * 1000 if "starts_at" in given else None
        partitions = given["partitions"].sequence() if "partitions" in given else []
        owner = _checked(value, lambda: _owner(given))
        constraints = _checked(value, lambda: read_constraints(given, owner))
        return SessionWorkload(
            session_id=SessionId(name),
            kernels=tuple(replace(kernel, constraints=constraints) for kernel in kernels),
            submitted=index,
            session_type=_choice(
                given.get("type"), SessionType, SessionType.BATCH if starts else SessionType.INTERACTIVE
            ),
            owner=owner,
            queue=QueueName(given["queue"].text()) if "queue" in given else QueueName("default"),
            priority=given["priority"].number() if "priority" in given else 0,
            min_kernels=given["min_kernels"].number(least=0) if "min_kernels" in given else None,
            group_minimums={key: item.number(least=0) for key, item in _mapping_at(given, "group_min").items()},
            partitions=tuple(_partition(item) for item in partitions),
            topology=_topology(given.get("topology")),
            hypernode=hypernode.text() if hypernode is not None else None,
            dependencies=tuple(SessionId(i.text()) for i in given["depends"].sequence()) if "depends" in given else (),
            starts_at_ms=starts,
            gates=tuple(item.text() for item in _list_at(given, "gates")),
            preemptible=given["preemptible"].flag() if "preemptible" in given else True,
            preemption=_choice(given.get("preemption"), Preemption, Preemption.ALWAYS),
            running_since_ms=self._ago(given.get("runs_for")),
            checkpoint_ms=self._ago(given.get("checkpoint")),
            time_limit_ms=_ms(given.get("time_limit")),
            grace_ms=_ms(given.get("grace")) or 0,
            deadline_ms=_ms(given.get("deadline")),
            booking=given["booking"].text() if "booking" in given else "",
            borrow=given["borrow"].flag() if "borrow" in given else False,
            loan=QueueName(given["loan"].text()) if "loan" in given else None,
            migratable=given["migratable"].flag() if "migratable" in given else False,
        )

    def _booking(self, name: str, value: ScenarioValue) -> Booking:
        given = value.items(_BOOKING)
        for key in ("from", "to"):
            if key not in given:
                raise value.location.error(f"lacks {key}")
        hypernode = given.get("hypernode")
        if hypernode is not None and hypernode.text() not in self._section("hypernodes"):
            raise hypernode.location.error(f"there is no hypernode {hypernode.text()!r}")
        unused = given["release_unused_s"].number(least=0) if "release_unused_s" in given else RELEASE_UNUSED_DEFAULT_S
        return _checked(
            value,
            lambda: Booking(
                name=name,
                kind=_choice(given.get("kind"), BookingKind, BookingKind.BOOKING),
                from_ms=_ms(given["from"]) or 0,
                to_ms=_ms(given["to"]) or 0,
                agents=tuple(str(self._agent_name(item)) for item in _list_at(given, "agents")),
                hypernode=None if hypernode is None else hypernode.text(),
                users=tuple(item.text() for item in _list_at(given, "users")),
                groups=tuple(item.text() for item in _list_at(given, "groups")),
                queues=tuple(item.text() for item in _list_at(given, "queues")),
                release_unused_s=unused,
                return_s=given["return_s"].number(least=0) if "return_s" in given else None,
            ),
        )

    def _ago(self, value: ScenarioValue | None) -> int | None:
        """The time that lies so many seconds before the first cycle."""
        return None if value is None else self._now_ms - value.number(least=0) * 1000

    def _kernel(self, name: str, value: ScenarioValue) -> KernelWorkload:
        given = value.items(_KERNEL)
        if name in self._kernels:
            raise value.location.error(
                f"another kernel is called {name!r}", hint="kernel names are unique in a scenario"
            )
        _checked(value, lambda: checked_name(name, what="kernel"))
        self._kernels.add(name)
        if "releasing" in given and "at" not in given:
            raise given["releasing"].location.error("only a running kernel (at) can be releasing")
        at = self._agent_name(given["at"]) if "at" in given else None
        return KernelWorkload(
            kernel_id=KernelId(name),
            slots=_slots(given.get("slots")),
            group=given["group"].text() if "group" in given else "",
            image=given["image"].text() if "image" in given else "",
            architecture=given["arch"].text() if "arch" in given else "x86_64",
            labels=_texts(given.get("labels")),
            require=_texts(given.get("require")),
            priority=given["priority"].number() if "priority" in given else 0,
            preemptible=given["preemptible"].flag() if "preemptible" in given else True,
            nominated=self._agent_name(given["nominated"]) if "nominated" in given else None,
            agent=at,
            releasing=given["releasing"].flag() if "releasing" in given else False,
        )

    def _limits(self) -> dict[Scope, dict[str, ResourcePolicy]]:
        limits: dict[Scope, dict[str, ResourcePolicy]] = {}
        for scope_name, value in self._section("limits").items():
            if scope_name not in set(Scope):
                raise value.location.error("is not a scope", hint=f"scopes are {listed(Scope)}")
            limits[Scope(scope_name)] = {name: _limit(name, item) for name, item in value.mapping().items()}
        return limits

    def _history(self, now_ms: int) -> tuple[UsageRecord, ...]:
        records = []
        for item in self._entries["history"].sequence() if "history" in self._entries else []:
            given = item.items(("user", "age", "amount"))
            for key in ("user", "age", "amount"):
                if key not in given:
                    raise item.location.error(f"lacks {key}")
            age_ms = given["age"].number(least=0) * 1000
            records.append(UsageRecord(given["user"].text(), now_ms - age_ms, given["amount"].number(least=0)))
        return tuple(records)

    def _expect(self, sessions: set[SessionId]) -> dict[str, object]:
        """The expectations; everything they name must exist."""
        given = self._entries["expect"].items(_EXPECT) if "expect" in self._entries else {}
        for key in ("placed_count", "same_hypernode_tier"):
            if key in given:
                given[key].number(least=0)
        named = [item for key in ("placed", "placed_in", "moved") for item in _mapping_at(given, key).items()]
        for kernel, value in named:
            if kernel not in self._kernels:
                raise value.location.error(f"there is no kernel {kernel!r}")
        for value in _list_at(given, "evicted"):
            if value.text() not in self._kernels:
                raise value.location.error(f"there is no kernel {value.text()!r}")
        for key in ("lost", "starts_at"):
            for value in _mapping_at(given, key).values():
                value.number(least=0)
        self._check_names(given)
        waiting = [(item.text(), item) for item in _list_at(given, "pending")]
        keyed = [
            item for key in ("reserved", "reason", "lost", "starts_at") for item in _mapping_at(given, key).items()
        ]
        for session, value in (*keyed, *waiting):
            if session not in sessions:
                raise value.location.error(f"there is no session {session!r}")
        return {key: value.plain() for key, value in given.items()}

    def _check_names(self, given: Mapping[str, ScenarioValue]) -> None:
        """Check that the expected agents and hypernodes exist and reasons are strings."""
        for value in (*_mapping_at(given, "placed").values(), *_mapping_at(given, "moved").values()):
            self._agent_name(value)
        for key in ("placed_in", "reserved"):
            for value in _mapping_at(given, key).values():
                for item in value.sequence():
                    self._agent_name(item)
        for value in _mapping_at(given, "reason").values():
            value.text()
        within = given.get("placed_within")
        if within is not None and within.text() not in self._section("hypernodes"):
            raise within.location.error(f"there is no hypernode {within.text()!r}")


def _agent(name: str, value: ScenarioValue) -> AgentInfo:
    given = value.items(_AGENT)
    return _checked(
        value,
        lambda: AgentInfo(
            agent_id=AgentId(name),
            available_slots=_slots(given.get("slots")),
            architecture=given["arch"].text() if "arch" in given else "x86_64",
            labels={**_texts(given.get("labels")), **read_taints(given)},
            kernels_max=given["max_kernels"].number(least=0) if "max_kernels" in given else None,
            status=_choice(given.get("status"), AgentStatus, AgentStatus.ALIVE),
            shard=given["shard"].text() if "shard" in given else None,
            cached_images=frozenset(i.text() for i in given["images"].sequence()) if "images" in given else frozenset(),
        ),
    )


def _queue(name: str, value: ScenarioValue) -> Queue:
    given = value.items(_QUEUE)
    return _checked(
        value,
        lambda: Queue(
            name=QueueName(name),
            weight=given["weight"].number() if "weight" in given else 1,
            priority=given["priority"].number() if "priority" in given else 0,
            state=_choice(given.get("state"), QueueState, QueueState.OPEN),
            parent=QueueName(given["parent"].text()) if "parent" in given else ROOT_QUEUE,
            reclaimable=given["reclaimable"].flag() if "reclaimable" in given else True,
            capability=_slot_limits(given.get("capability")),
            deserved=_slot_limits(given.get("deserved")),
            guarantee=_slots(given.get("guarantee")),
            min_runtime_s=given["min_runtime"].number(least=0) if "min_runtime" in given else None,
            return_s=given["return_s"].number(least=0) if "return_s" in given else None,
        ),
    )


def _partition(value: ScenarioValue) -> Partition:
    given = value.items(("name", "by", "size", "min_groups", "topology"))
    for key in ("name", "by"):
        if key not in given:
            raise value.location.error(f"a partition needs {key}")
    return _checked(
        value,
        lambda: Partition(
            name=given["name"].text(),
            by=given["by"].text(),
            size=given["size"].number() if "size" in given else 1,
            min_groups=given["min_groups"].number() if "min_groups" in given else 0,
            topology=_topology(given.get("topology")),
        ),
    )


def _topology(value: ScenarioValue | None) -> TopologyConstraint | None:
    if value is None:
        return None
    given = value.items(("mode", "highest_tier"))
    tier = None
    if "highest_tier" in given:
        named = given["highest_tier"]
        tier = named.number() if isinstance(named.content, int) else named.text()
    return _checked(
        value, lambda: TopologyConstraint(_choice(given.get("mode"), TopologyMode, TopologyMode.HARD), tier)
    )


def _limit(name: str, value: ScenarioValue) -> ResourcePolicy:
    given = value.items(_LIMIT)
    return _checked(
        value,
        lambda: ResourcePolicy(
            name=name,
            slots_max=_slot_limits(given.get("slots")),
            sessions_max=given["sessions"].number(least=0) if "sessions" in given else None,
            pending_sessions_max=given["pending"].number(least=0) if "pending" in given else None,
            pending_slots_max=_slot_limits(given.get("pending_slots")),
        ),
    )


def _fair_share(value: ScenarioValue) -> FairSharePolicy:
    given = value.items(("half_life", "weights"))
    weights = {key: item.number(least=1) for key, item in _mapping_at(given, "weights").items()}
    half_life = given["half_life"].number(least=1) if "half_life" in given else FairSharePolicy().half_life_s
    return _checked(value, lambda: FairSharePolicy(half_life, weights))


def _owner(given: Mapping[str, ScenarioValue]) -> Owner:
    user = given["user"].text() if "user" in given else DEFAULT_OWNER_NAME
    return Owner(
        user=user,
        group=given["group"].text() if "group" in given else DEFAULT_OWNER_NAME,
        domain=given["domain"].text() if "domain" in given else DEFAULT_OWNER_NAME,
        access_key=AccessKey(given["keypair"].text() if "keypair" in given else user),
    )


def _ms(value: ScenarioValue | None) -> int | None:
    """A number of seconds in milliseconds."""
    return None if value is None else value.number(least=0) * 1000


def _mapping_at(given: Mapping[str, ScenarioValue], key: str) -> dict[str, ScenarioValue]:
    return given[key].mapping() if key in given else {}


def _list_at(given: Mapping[str, ScenarioValue], key: str) -> list[ScenarioValue]:
    return given[key].sequence() if key in given else []


def _slots(value: ScenarioValue | None) -> ResourceSlot:
    return ResourceSlot() if value is None else _checked(value, lambda: read_slots(_plain_mapping(value)))


def _plain_mapping(value: ScenarioValue) -> dict[str, Any]:
    return {key: item.plain() for key, item in value.mapping().items()}


def _profile(value: ScenarioValue) -> SchedulingProfile:
    try:
        return profile_from(_plain_mapping(value))
    except InvalidSpec as error:
        location = value.mapping()[error.field].location if error.field in value.mapping() else value.location
        raise location.error(f"{quoted(error.value)} {error.problem}", hint=error.hint) from error


def _slot_limits(value: ScenarioValue | None) -> SlotLimits:
    if value is None:
        return SlotLimits()
    return _checked(
        value,
        lambda: SlotLimits({slot: parse_amount(slot, amount.plain()) for slot, amount in value.mapping().items()}),
    )


def _texts(value: ScenarioValue | None) -> dict[str, str]:
    return {} if value is None else {key: item.text() for key, item in value.mapping().items()}


def _choice(value: ScenarioValue | None, kind: type[E], default: E) -> E:
    if value is None:
        return default
    if not isinstance(value.content, str) or value.content not in set(kind):
        raise value.location.error(f"is {value.plain()!r}", hint=f"known are {listed(kind)}")
    return kind(value.content)


def _checked(value: ScenarioValue, make: Callable[[], R]) -> R:
    """Call `make`; an error of the domain gets the location of the value."""
    try:
        return make()
    except InvalidInput as error:
        if hasattr(error, "where"):
            raise
        raise value.location.error(error.message, hint=error.hint) from error
