"""Session specs: kernels, minimums, topology, dependencies, time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum, auto

from sokovan.domain.arrays import ArrayMember, array_name
from sokovan.domain.checks import require_int, require_kind, require_labels, require_slots, require_tuple
from sokovan.domain.commands import is_plain_path, require_command, require_environment, require_secret_names
from sokovan.domain.constraints.affinity import AffinityTerm
from sokovan.domain.constraints.label_expression import LabelExpression
from sokovan.domain.constraints.labels import require_session_labels
from sokovan.domain.constraints.placement import require_constraints
from sokovan.domain.constraints.taint import Toleration
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import (
    ARCHITECTURE_DEFAULT,
    DEFAULT_QUEUE,
    DEFAULT_SCALING_GROUP,
    AgentId,
    ArrayId,
    KernelId,
    QueueName,
    ScalingGroupName,
    SessionId,
    checked_name,
    require_digests,
)
from sokovan.domain.lifecycle.replica import ReplicaPlace
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.owners.uploads import is_digest
from sokovan.domain.slots import ResourceSlot, total

KERNELS_MAX = 100_000
PRIORITY_RANGE = (-1_000_000, 1_000_000)
GATES_MAX = 8
PARTITIONS_MAX = 16
# Ports below are privileged.
PORT_RANGE = (1_024, 65_535)
ANY_PORT = 0
# The longest time between two checkpoints that a session may state: 30 days.
CHECKPOINT_MAX_S = 2_592_000
# The variable of the port at which the kernels of a gang meet, and the name of its lease; no service can have them.
MASTER_PORT = "MASTER_PORT"
MASTER_LEASE = "#master"


class SessionType(StrEnum):
    """The kind of work that a session does."""

    INTERACTIVE = auto()
    BATCH = auto()
    INFERENCE = auto()
    SYSTEM = auto()

    def __init__(self, value: str) -> None:
        # Whether it counts against the quotas of its owner; system sessions do not. Read for each session of a cycle.
        self.is_charged = value != "system"


class TopologyMode(StrEnum):
    """Whether a topology constraint is mandatory."""

    HARD = auto()  # do not start unless the constraint can be met
    SOFT = auto()  # as close together as possible


class Preemption(StrEnum):
    """Whether a session may evict others to make room for itself."""

    ALWAYS = auto()
    NEVER = auto()


class PreemptedPolicy(StrEnum):
    """Whether a session whose whole gang was evicted waits again, or ends."""

    REQUEUE = auto()
    END = auto()


class LostPolicy(StrEnum):
    """How a session reacts when one of its agents is lost for good."""

    END = auto()
    REQUEUE = auto()


class EndPolicy(StrEnum):
    """The kernels whose exit ends the session; a failure always ends it."""

    ALL = auto()
    MAIN = auto()
    ANY = auto()


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory of the agent, mounted in the kernels at `target`."""

    source: str
    target: str
    read_only: bool = True

    def __post_init__(self) -> None:
        for field_name, path in (("source", self.source), ("target", self.target)):
            if not is_plain_path(path):
                raise InvalidSpec(
                    what="mount",
                    field=field_name,
                    value=path,
                    problem="must be an absolute path without . or .. in it",
                )
        require_kind(self.read_only, bool, what=f"mount {self.target}", field="read_only")


class ServiceProtocol(StrEnum):
    """The protocol of a service port."""

    HTTP = auto()
    TCP = auto()


@dataclass(frozen=True, slots=True)
class ServicePort:
    """A named port at which the session's first kernel serves.

    ANY_PORT is any free port of the agent's range.
    """

    name: str
    port: int = ANY_PORT
    protocol: ServiceProtocol = ServiceProtocol.HTTP

    def __post_init__(self) -> None:
        checked_name(self.name, what="service port")
        what = f"service port {self.name}"
        if self.name == MASTER_PORT:
            problem = "is the port at which the kernels of a gang meet; choose another name"
            raise InvalidSpec(what=what, field="name", value=self.name, problem=problem)
        if self.port != ANY_PORT:
            require_int(self.port, what=what, field="port", least=PORT_RANGE[0], most=PORT_RANGE[1])
        require_kind(self.protocol, ServiceProtocol, what=what, field="protocol")


@dataclass(frozen=True, slots=True)
class TopologyConstraint:
    """All kernels under one HyperNode of at most `highest_tier` (number or name)."""

    mode: TopologyMode
    highest_tier: int | str | None = None

    def __post_init__(self) -> None:
        what = "topology constraint"
        if not isinstance(self.mode, TopologyMode):
            raise InvalidSpec(what=what, field="mode", value=self.mode, problem="must be hard or soft")
        if isinstance(self.highest_tier, str):
            checked_name(self.highest_tier, what="tier")
        elif self.highest_tier is not None:
            require_int(self.highest_tier, what=what, field="highest_tier", least=1)


@dataclass(frozen=True, slots=True)
class Partition:
    """Kernels with the same value of label `by` form one kernel group.

    A group is ready with `size` kernels; the session needs `min_groups` ready groups of
    this partition. Each group may have a topology constraint of its own.
    """

    name: str
    by: str
    size: int = 1
    min_groups: int = 0
    topology: TopologyConstraint | None = None

    def __post_init__(self) -> None:
        checked_name(self.name, what="partition")
        checked_name(self.by, what="label")
        require_int(self.size, what=f"partition {self.name}", field="size", least=1)
        require_int(self.min_groups, what=f"partition {self.name}", field="min_groups", least=0)
        if self.topology is not None:
            require_kind(self.topology, TopologyConstraint, what=f"partition {self.name}", field="topology")


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernel: its requested resources and placement constraints."""

    kernel_id: KernelId
    slots: ResourceSlot
    group: str = ""
    image: str = ""
    architecture: str = ARCHITECTURE_DEFAULT
    labels: Mapping[str, str] = field(default_factory=dict)
    require: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    preemptible: bool = True
    nominated: AgentId | None = None
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_name(self.kernel_id, what="kernel")
        what = f"kernel {self.kernel_id}"
        require_slots(self.slots, what=what)
        checked_name(self.architecture, what="architecture")
        require_labels(self.labels, what=what)
        require_labels(self.require, what=what, field="require")
        low, high = PRIORITY_RANGE
        require_int(self.priority, what=what, field="priority", least=low, most=high)
        require_kind(self.preemptible, bool, what=what, field="preemptible")
        for name, value in (("group", self.group), ("image", self.image)):
            if value != "":
                checked_name(value, what=name)
        if self.nominated is not None:
            checked_name(self.nominated, what="agent")
        require_command(self.command, what=what)
        require_environment(self.environment, what=what)

    def with_id(self, kernel_id: KernelId) -> KernelSpec:
        """The same kernel with another id; only that is checked again.

        A gang has thousands of kernels that differ in nothing else.
        """
        checked_name(kernel_id, what="kernel")
        copied = object.__new__(KernelSpec)
        for name in KernelSpec.__slots__:
            object.__setattr__(copied, name, getattr(self, name))
        object.__setattr__(copied, "kernel_id", kernel_id)
        return copied

    @property
    def best_effort(self) -> bool:
        """Whether the kernel requests no slots, and fits on any agent."""
        return not self.slots


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Options that a request sets and the session keeps; a new one is declared here.

    `preemptible` says whether others may evict it, `preemption` whether it may evict others.
    `gates` are the closed scheduling gates: the session waits until all are open. A release
    removes them; nothing adds one later. Without `on_preempt`, an evicted session waits
    again if it is a batch session, and ends otherwise. It runs on the agents of `booking`, if it
    names one. It should have ended at `deadline_ms`, which orders sessions and ends none.
    With `borrow` it may run on what a queue is guaranteed and does not use. With `migratable` it
    may be moved to other agents, where it starts again, so that another session fits. It
    saves its work every `checkpoint_s` seconds or more often, whether it reports that or not.
    `replica` is its place in a deployment; inference sessions have one, and no user can set it.
    """

    name: str = ""
    session_type: SessionType = SessionType.INTERACTIVE
    priority: int = 0
    topology: TopologyConstraint | None = None
    starts_at_ms: int | None = None
    time_limit_s: int | None = None
    idle_timeout_s: int | None = None
    preemptible: bool = True
    mounts: tuple[Mount, ...] = ()
    workdir: str = ""
    upload: str = ""
    ports: tuple[ServicePort, ...] = ()
    stop_grace_s: int = 10
    on_agent_lost: LostPolicy = LostPolicy.END
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    tolerates_failures: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    where: tuple[LabelExpression, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    gates: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()
    preemption: Preemption = Preemption.ALWAYS
    on_preempt: PreemptedPolicy | None = None
    booking: str = ""
    deadline_ms: int | None = None
    borrow: bool = False
    migratable: bool = False
    checkpoint_s: int | None = None
    replica: ReplicaPlace | None = None

    @property
    def returns(self) -> bool:
        """Whether it waits again after all of its kernels were evicted."""
        if self.on_preempt is None:
            return self.session_type is SessionType.BATCH
        return self.on_preempt is PreemptedPolicy.REQUEUE


@dataclass(frozen=True, slots=True)
class SessionSpec(SessionOptions):
    """A session to schedule. Valid by construction.

    `min_kernels` is the gang minimum: all kernels if not given; 0 or 1 means that each kernel may start alone.
    `group_minimums` bound it per kernel group. Of an array in `array_dependencies`, every session must succeed. With
    `owns_folders` it names folders of agents as the only user of the system; with `isolated_network` it has no
    network. `secrets` are names without values; `kernel_disk_max` limits kernels; `image_digests` pins images by name.
    """

    session_id: SessionId
    kernels: tuple[KernelSpec, ...]
    owner: Owner = field(default_factory=Owner)
    scaling_group: ScalingGroupName = DEFAULT_SCALING_GROUP
    queue: QueueName = DEFAULT_QUEUE
    min_kernels: int | None = None
    group_minimums: Mapping[str, int] = field(default_factory=dict)
    dependencies: tuple[SessionId, ...] = ()
    ends_with: EndPolicy = EndPolicy.ANY
    array: ArrayMember | None = None
    array_dependencies: tuple[ArrayId, ...] = ()
    owns_folders: bool = False
    isolated_network: bool = False
    secrets: tuple[str, ...] = ()
    kernel_disk_max: int | None = None
    image_digests: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_name(self.session_id, what="session")
        checked_name(self.scaling_group, what="scaling group")
        checked_name(self.queue, what="queue")
        self._check_kinds()
        self._check_preemption()
        self._check_kernels()
        self._check_minimums()
        self._check_partitions()
        self._check_times()
        self._check_gates()
        for dependency in self.awaited:
            checked_name(dependency, what="session")
        if self.session_id in self.dependencies:
            raise self._wrong("dependencies", self.session_id, "a session cannot depend on itself")

    def copied(self, new_id: Callable[[str], str], *, name: str, array: ArrayMember | None = None) -> SessionSpec:
        """The same session with new ids and this name and place in an array.

        Only these are checked again: a sweep has thousands of sessions that differ in nothing
        else. `new_id` makes the ids of a kind, `s` or `k`.
        """
        session_id = SessionId(checked_name(new_id("s"), what="session"))
        checked_name(name if array is None else array_name(name), what="session")
        kernels = tuple(one.with_id(KernelId(new_id("k"))) for one in self.kernels)
        made = object.__new__(SessionSpec)
        for field_name in _SESSION_FIELDS:
            object.__setattr__(made, field_name, getattr(self, field_name))
        for field_name, value in (("session_id", session_id), ("kernels", kernels), ("name", name), ("array", array)):
            object.__setattr__(made, field_name, value)
        made._check_kernels()
        return made

    @property
    def gang_size(self) -> int:
        """How many kernels must start together."""
        return len(self.kernels) if self.min_kernels is None else max(1, self.min_kernels)

    @property
    def awaited(self) -> tuple[str, ...]:
        """The ids of the sessions and arrays that must succeed before it starts."""
        return (*self.dependencies, *self.array_dependencies)

    @property
    def array_name(self) -> str:
        """The name of its array; "" without one."""
        return "" if self.array is None else array_name(self.name)

    def requested_slots(self) -> ResourceSlot:
        """The sum over all kernels."""
        return total(kernel.slots for kernel in self.kernels)

    def _wrong(self, field_name: str, value: object, problem: str) -> InvalidSpec:
        return InvalidSpec(what=f"session {self.session_id}", field=field_name, value=value, problem=problem)

    def _check_kinds(self) -> None:
        what = f"session {self.session_id}"
        _check_types(self, what)
        if self.replica is not None:
            require_kind(self.replica, ReplicaPlace, what=what, field="replica")
        require_digests(self.image_digests, what=what)
        if self.workdir != "" and not is_plain_path(self.workdir):
            raise self._wrong("workdir", self.workdir, "must be an absolute path without . or .. in it")
        if self.upload != "" and not is_digest(self.upload):
            raise self._wrong("upload", self.upload, "must be the id of an upload, a SHA-256 digest")
        if self.upload and self.workdir:
            raise self._wrong("workdir", self.workdir, "a session with an upload runs in it; give one of them")
        require_session_labels(self.labels, what=what)
        require_constraints(
            what=what,
            where=self.where,
            tolerations=self.tolerations,
            affinity=self.affinity,
            anti_affinity=self.anti_affinity,
        )
        require_int(self.stop_grace_s, what=what, field="stop_grace_s", least=0, most=3600)
        if self.kernel_disk_max is not None:
            require_int(self.kernel_disk_max, what=what, field="kernel_disk_max", least=0, most=2**60)
        if self.secrets:
            require_secret_names(self.secrets, [kernel.environment for kernel in self.kernels], what=what)
        if self.array is not None:
            require_kind(self.array, ArrayMember, what=what, field="array")
        if self.name != "":
            checked_name(self.name if self.array is None else array_name(self.name), what="session")
        if self.topology is not None:
            require_kind(self.topology, TopologyConstraint, what=what, field="topology")
        if not isinstance(self.group_minimums, Mapping):
            raise self._wrong("group_minimums", self.group_minimums, "must be a mapping")

    def _check_preemption(self) -> None:
        what = f"session {self.session_id}"
        require_kind(self.preemption, Preemption, what=what, field="preemption")
        if self.checkpoint_s is not None:
            require_int(self.checkpoint_s, what=what, field="checkpoint_s", least=1, most=CHECKPOINT_MAX_S)
        if self.on_preempt is not None:
            require_kind(self.on_preempt, PreemptedPolicy, what=what, field="on_preempt")

    def _check_kernels(self) -> None:
        if not self.kernels:
            raise self._wrong("kernels", self.kernels, "a session has at least one kernel")
        if len(self.kernels) > KERNELS_MAX:
            raise self._wrong("kernels", len(self.kernels), f"a session has at most {KERNELS_MAX} kernels")
        ids = [kernel.kernel_id for kernel in self.kernels]
        if len(set(ids)) < len(ids):
            name, _ = Counter(ids).most_common(1)[0]
            raise self._wrong("kernels", name, "two kernels have this id")

    def _check_minimums(self) -> None:
        what = f"session {self.session_id}"
        low, high = PRIORITY_RANGE
        require_int(self.priority, what=what, field="priority", least=low, most=high)
        if self.min_kernels is not None:
            require_int(self.min_kernels, what=what, field="min_kernels", least=0)
            if self.min_kernels > len(self.kernels):
                raise self._wrong("min_kernels", self.min_kernels, f"there are only {len(self.kernels)} kernels")
        sizes = Counter([kernel.group for kernel in self.kernels] if self.group_minimums else ())
        for group, minimum in self.group_minimums.items():
            if group != "":
                checked_name(group, what="group")
            require_int(minimum, what=what, field=f"group_minimums.{group}", least=0)
            if minimum > sizes[group]:
                problem = f"the group has only {sizes[group]} kernels"
                raise self._wrong(f"group_minimums.{group}", minimum, problem)

    def _check_partitions(self) -> None:
        if len(self.partitions) > PARTITIONS_MAX:
            raise self._wrong("partitions", len(self.partitions), f"a session has at most {PARTITIONS_MAX} partitions")
        names = [partition.name for partition in self.partitions]
        for partition in self.partitions:
            if names.count(partition.name) > 1:
                raise self._wrong("partitions", partition.name, "two partitions have this name")
            sizes = Counter(kernel.labels[partition.by] for kernel in self.kernels if partition.by in kernel.labels)
            whole = sum(1 for size in sizes.values() if size >= partition.size)
            if whole < partition.min_groups:
                problem = f"only {whole} groups by label {partition.by} have {partition.size} kernels"
                raise self._wrong(f"partitions.{partition.name}.min_groups", partition.min_groups, problem)

    def _check_times(self) -> None:
        what = f"session {self.session_id}"
        if self.starts_at_ms is not None:
            require_int(self.starts_at_ms, what=what, field="starts_at_ms", least=0)
            if self.session_type is not SessionType.BATCH:
                raise self._wrong("starts_at_ms", self.starts_at_ms, "only a batch session may start later")
        if self.booking != "":
            checked_name(self.booking, what="booking")
        if self.deadline_ms is not None:
            require_int(self.deadline_ms, what=what, field="deadline_ms", least=0)
        if self.time_limit_s is not None:
            require_int(self.time_limit_s, what=what, field="time_limit_s", least=1)
        if self.idle_timeout_s is not None:
            require_int(self.idle_timeout_s, what=what, field="idle_timeout_s", least=1)

    def _check_gates(self) -> None:
        if len(self.gates) > GATES_MAX:
            raise self._wrong("gates", len(self.gates), f"a session has at most {GATES_MAX} gates")
        for gate in self.gates:
            if self.gates.count(gate) > 1:
                raise self._wrong("gates", gate, "two gates have this name")
            checked_name(gate, what="gate")


_FLAGS = ("preemptible", "borrow", "migratable", "owns_folders", "isolated_network", "tolerates_failures")
_FIELD_KINDS: Mapping[str, type] = {
    "session_type": SessionType, "owner": Owner, "on_agent_lost": LostPolicy, "retry": RetryPolicy,
    "ends_with": EndPolicy, **dict.fromkeys(_FLAGS, bool)}  # fmt: skip
_TUPLE_KINDS: Mapping[str, type] = {
    "kernels": KernelSpec, "partitions": Partition, "mounts": Mount, "ports": ServicePort,
    **dict.fromkeys(("dependencies", "secrets", "gates", "array_dependencies"), str),
}  # fmt: skip
_SESSION_FIELDS = tuple(one.name for one in fields(SessionSpec))


def _check_types(spec: SessionSpec, what: str) -> None:
    for check, kinds in ((require_kind, _FIELD_KINDS), (require_tuple, _TUPLE_KINDS)):
        for name, kind in kinds.items():
            check(getattr(spec, name), kind, what=what, field=name)
