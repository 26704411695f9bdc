"""JSON types of sessions: requests and views.

Times are RFC 3339 in UTC, durations are seconds, amounts are integers in the slot's
smallest unit (cpu in millicores, mem in bytes), except in a request, where `4`, `0.5` or
`16GiB` are allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from sokovan.wire.api.bodies import Amount, StrictBody
from sokovan.wire.api.evictions import EvictionView

SessionType = Literal["interactive", "batch", "inference", "system"]
# The default seconds between the request to stop and the forced end.
STOP_GRACE_S = 10
# The reason of a session that was withdrawn because it waited too long.
PENDING_TIMEOUT = "pending-timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class MountBody(StrictBody):
    """A directory of the agent, mounted in the kernels at `target`."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePortBody(StrictBody):
    """A named port at which the main kernel serves; 0 is any of the agent's range."""

    name: str
    port: int = 0
    protocol: Literal["http", "tcp"] = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGroupBody(StrictBody):
    """A group of equal kernels; missing values are inherited from the session.

    `priority` orders the kernels of the session: higher ones are placed first. `nominated`
    is the agent that is preferred if it has room.
    """

    name: str
    size: int = 1
    minimum: int | None = None
    image: str | None = None
    command: list[str] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Amount] | None = None
    labels: dict[str, str] = field(default_factory=dict)
    require: dict[str, str] = field(default_factory=dict)
    priority: int = 0
    nominated: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBody(StrictBody):
    """Divides the kernels by the values of their label `by`.

    Kernels with the same value are placed together: `size` of them make a part ready, and
    `min_groups` ready parts are needed to start. `topology` holds for each part alone.
    """

    name: str
    by: str
    size: int = 1
    min_groups: int = 0
    topology: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBody(StrictBody):
    """How often the start of a session is attempted, and where.

    `elsewhere`: other agents are tried at once, and the one that failed only after the
    backoff, which doubles. Otherwise any agent is tried, after the backoff.
    """

    attempts: int = 3
    backoff: int | str = 5
    elsewhere: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBody(StrictBody):
    """A request for a session.

    Either `size` equal kernels, one main kernel and the others, or `groups`. `topology` is `hard`, `soft`, or
    one of them with the highest tier: `hard:rack`, `soft:2`. `where` are conditions on labels of agents: `zone
    in (a, b)`, `nvme exists`. `affinity` and `anti_affinity` name labels of other sessions of the group:
    `app=db`, `app=db within rack`. `workdir` is a folder of the agent, in which the kernels run and which they
    may change; by default each has an empty folder of its own. `upload` is the id of an upload of the caller;
    the kernels of the session run in a copy of it, one per agent. With `array`, one session per index:
    `0-999%50`, `1,3,7-9`, `0-100:10`. With `gates`, names of scheduling gates, the session is held until all of
    them are released. `nominated` is the agent that is preferred if it has room. `preemptible` says whether
    others may evict the session, `preemption` whether it may evict others. `on_preempt` says whether it waits
    again after it was evicted; batch sessions do by default, others end. It runs on the agents of `booking`, if
    it names one. It should have ended at `deadline`: the scheduler `deadline` starts sessions in time for it.
    With `borrow` it may run on what a queue is guaranteed and does not use, and is recalled when the queue
    needs it. With `migratable` it may be moved to other agents, where it starts again. It saves its work every
    `checkpoint` or more often, so that an eviction costs no more than that. `secrets` are variables of all
    kernels whose values are stored encrypted until the session ends, and never shown.
    """

    name: str | None = None
    type: SessionType = "batch"
    image: str | None = None
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    resources: dict[str, Amount] = field(default_factory=dict)
    size: int = 1
    minimum: int | None = None
    groups: list[KernelGroupBody] = field(default_factory=list)
    mounts: list[MountBody] = field(default_factory=list)
    workdir: str = ""
    upload: str = ""
    ports: list[ServicePortBody] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    require: dict[str, str] = field(default_factory=dict)
    where: list[str] = field(default_factory=list)
    tolerations: list[str] = field(default_factory=list)
    affinity: list[str] = field(default_factory=list)
    anti_affinity: list[str] = field(default_factory=list)
    architecture: str | None = None
    scaling_group: str | None = None
    queue: str | None = None
    group: str | None = None
    priority: int = 0
    topology: str | None = None
    depends_on: list[str] = field(default_factory=list)
    starts_at: str | None = None
    time_limit: int | str | None = None
    idle_timeout: int | str | None = None
    preemptible: bool = True
    preemption: Literal["always", "never"] = "always"
    stop_grace: int | str = STOP_GRACE_S
    ends_with: Literal["all", "main", "any"] | None = None
    tolerates_failures: bool = False
    on_preempt: Literal["end", "requeue"] | None = None
    booking: str | None = None
    deadline: str | None = None
    borrow: bool = False
    migratable: bool = False
    checkpoint: int | str | None = None
    on_agent_lost: Literal["end", "requeue"] = "end"
    retry: RetryBody = field(default_factory=RetryBody)
    array: str | None = None
    gates: list[str] = field(default_factory=list)
    partitions: list[PartitionBody] = field(default_factory=list)
    nominated: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpecView:
    """The request that submits a session again.

    The values of `secrets` are never shown, and those of other variables to the owner only: the
    ones of `hidden` are missing. `left_out` are fields whose time has passed. `notes`
    say what to give again.
    """

    session: str
    body: SessionBody
    secrets: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class RunOptions(TypedDict, total=False):
    """Keyword arguments of the SDK's `run()`: the fields of SessionBody.

    `cpus`, `mem` and `gpus` are entries of `resources`, `attempts` is one of `retry`; mounts and ports may be strings.
    `workdir` may be relative, or `none` for the session's own folder.
    """

    name: str
    type: SessionType
    image: str
    cpus: Amount
    mem: Amount
    gpus: Amount
    resources: Mapping[str, Amount]
    size: int
    minimum: int
    groups: Sequence[KernelGroupBody]
    environment: Mapping[str, str]
    secrets: Mapping[str, str]
    mounts: Sequence[str | MountBody]
    workdir: str
    upload: str
    ports: Sequence[str | ServicePortBody]
    labels: Mapping[str, str]
    require: Mapping[str, str]
    where: Sequence[str]
    tolerations: Sequence[str]
    affinity: Sequence[str]
    anti_affinity: Sequence[str]
    architecture: str
    scaling_group: str
    queue: str
    group: str
    priority: int
    topology: str
    depends_on: Sequence[str]
    starts_at: str
    time_limit: int | str
    idle_timeout: int | str
    preemptible: bool
    preemption: Literal["always", "never"]
    stop_grace: int | str
    ends_with: Literal["all", "main", "any"]
    tolerates_failures: bool
    on_preempt: Literal["end", "requeue"]
    booking: str
    deadline: str
    borrow: bool
    migratable: bool
    checkpoint: int | str
    on_agent_lost: Literal["end", "requeue"]
    retry: RetryBody
    attempts: int
    array: str
    gates: Sequence[str]
    partitions: Sequence[PartitionBody]
    nominated: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelView:
    """One kernel."""

    id: str
    index: int
    role: str
    group: str
    status: str
    agent: str | None
    attempt: int
    exit_code: int | None
    slots: dict[str, int]
    devices: dict[str, list[str]]
    image: str
    since: str
    rank: int | None = None
    ports: dict[str, int] = field(default_factory=dict)
    priority: int = 0
    nominated: str | None = None
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStartView:
    """A failed attempt to start a session; the agent is avoided for a while."""

    attempt: int
    agent: str
    code: str
    detail: str
    at: str
    avoided_until: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayMemberView:
    """The array that a session belongs to; `limit` of its sessions run at once."""

    id: str
    name: str
    index: int
    size: int
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """One session; `reason` explains its status.

    `result` is `success`, `failure`, or `cancelled` if a user ended it first; null before.
    `times_out_at` is when a pending session is cancelled by the pending timeout of its
    scaling group; null without one, and while a quota, a dependency, the start time or a
    gate holds the session. `gates` are those that have not been released. `environment` has
    the names of the variables of the first kernel, `secrets` those of the secret ones.

    `kernels` are the first ones only: up to 100, and up to 8 in lists; the page of kernels
    has all of them. `kernel_counts` are all kernels by status, `agents` the number of agents
    they are placed on, and `exited` how many have ended with an exit code.
    """

    id: str
    name: str
    type: str
    status: str
    result: str | None
    goal: str
    user: str
    group: str
    domain: str
    scaling_group: str
    queue: str
    priority: int
    image: str
    command: list[str]
    slots: dict[str, int]
    size: int
    minimum: int
    kernels: list[KernelView]
    depends_on: list[str]
    topology: str | None
    hypernode: str | None
    submitted_at: str
    scheduled_at: str | None
    since: str
    ended_at: str | None
    starts_at: str | None
    time_limit_s: int | None
    reason: str | None
    reason_detail: str | None
    exit_code: int | None
    version: int
    kernel_counts: dict[str, int] = field(default_factory=dict)
    agents: int = 0
    exited: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    group_domains: dict[str, str] = field(default_factory=dict)
    where: list[str] = field(default_factory=list)
    tolerations: list[str] = field(default_factory=list)
    affinity: list[str] = field(default_factory=list)
    anti_affinity: list[str] = field(default_factory=list)
    attempt: int = 1
    retry: RetryBody = field(default_factory=RetryBody)
    failed_starts: list[FailedStartView] = field(default_factory=list)
    times_out_at: str | None = None
    workdir: str = ""
    upload: str = ""
    idle_timeout_s: int | None = None
    array: ArrayMemberView | None = None
    gates: list[str] = field(default_factory=list)
    partitions: list[PartitionBody] = field(default_factory=list)
    group_minimums: dict[str, int] = field(default_factory=dict)
    preemptible: bool = True
    preemption: str = "always"
    booking: str = ""
    deadline: str | None = None
    borrow: bool = False
    migratable: bool = False
    checkpoint_s: int | None = None
    loan: str = ""
    environment: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    mounts: list[str] = field(default_factory=list)
    require: dict[str, str] = field(default_factory=dict)
    architecture: str = ""
    stop_grace_s: int = STOP_GRACE_S
    ends_with: str = ""
    tolerates_failures: bool = False
    on_agent_lost: str = ""
    on_preempt: str = ""
    evictions: list[EvictionView] = field(default_factory=list)
    checkpoint_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """A page of sessions; `next` is the cursor of the next page."""

    items: list[SessionView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRowView:
    """One session as a list shows it, about a quarter of its view.

    `slots` are those of all kernels.
    """

    id: str
    name: str
    status: str
    result: str | None
    user: str
    group: str
    scaling_group: str
    queue: str
    priority: int
    size: int
    slots: dict[str, int]
    agents: int
    submitted_at: str
    scheduled_at: str | None
    since: str
    ended_at: str | None
    reason: str | None
    reason_detail: str | None
    array: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRowPage:
    """A page of rows of sessions; `next` is the cursor of the next page."""

    items: list[SessionRowView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCountView:
    """How many sessions have a value of a property."""

    value: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCountsView:
    """Sessions counted by a property, the most frequent values first.

    Of more than 1,000 values those are left out that are the least frequent.
    """

    by: str
    items: list[SessionCountView]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPage:
    """A page of the kernels of a session, by their index."""

    items: list[KernelView]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One history entry: a transition, or a counted reason for staying."""

    subject: str
    sequence: int
    before: str | None
    after: str
    trigger: str
    who: str
    code: str
    detail: str
    at: str
    last_at: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """A page of the history of a session and of its kernels, in order of time."""

    session: str
    lines: list[HistoryLine]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """A part of the output; `data` is base64, `offset` counts bytes from the start."""

    kernel: int
    offset: int
    next_offset: int
    data: str
    end: bool = False
