"""Stored objects: the spec, the current state and the version.

Every record carries the version it was read at. A write names that version
(compare-and-set) and fails if the record was changed in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum, auto
from operator import attrgetter
from typing import Any, Generic, TypeVar

from sokovan.domain.arrays import ArrayMember
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.events import SessionsSubmitted
from sokovan.domain.ids import AgentId, ArrayId, KernelId, QueueName, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.eviction import EvictionReceipt
from sokovan.domain.lifecycle.kernel import FollowUp, FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import EndPolicy, KernelSpec, SessionOptions, SessionSpec, SessionType
from sokovan.domain.slots import ResourceSlot, total

S = TypeVar("S")

DETAIL_MAX = 2_000
# The version of a session, and of its kernels, until the first write to it.
FIRST_VERSION = 1


class SessionResult(StrEnum):
    """How a session ended, for sessions that depend on it."""

    SUCCESS = auto()
    FAILURE = auto()


# Causes of an end after which all kernels had done their work, or one had failed.
COMPLETED, KERNEL_FAILED = "completed", "kernel-failed"
# Causes of an end that a user asked for.
USER_REQUESTED, FORCED_BY_USER = "user-requested", "forced-by-user"
ENDED_BY_USER = frozenset({USER_REQUESTED, FORCED_BY_USER})
# The code of the first change of a session.
SUBMITTED = "submitted"
# The code of the release of gates.
RELEASED = "released"
# New sessions that an event names.
SUBMITTED_NAMED_MAX = 200


@dataclass(frozen=True, slots=True)
class Change:
    """The author and the reason of a write.

    `code` is stable, for programs; `detail` is for people. NUL characters in it, which
    databases do not store, become U+FFFD.
    """

    who: str
    by: Cause
    code: str = ""
    detail: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", self.detail.replace("\0", "\ufffd"))
        if len(self.detail) > DETAIL_MAX:
            raise InvalidSpec(
                what="change", field="detail", value=self.detail, problem=f"is longer than {DETAIL_MAX} characters"
            )


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One history entry: a transition, or a reason for staying in the status.

    A reason that repeats is counted: `times`, first at `at_ms`, last at `last_ms`.
    """

    sequence: int
    before: str | None
    after: str
    trigger: str
    change: Change
    at_ms: int
    last_ms: int
    times: int = 1
    lease: str | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One kernel: its status and where it runs.

    `devices` are the devices of the agent that it holds, by slot; `rank` is its number
    among the kernels of the session that were placed, and never changes. `host_ports` are
    the ports of the agent that it has leased, by name of the service. `follow_up` is set
    once the kernel ends alone, while its session runs. `history_sequence` is the number of
    the last entry of its history.
    """

    kernel_id: KernelId
    session_id: SessionId
    index: int
    status: KernelStatus
    version: int
    slots: ResourceSlot
    attempt: int = 1
    agent_id: AgentId | None = None
    incarnation: int | None = None
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exit_code: int | None = None
    sent: bool = False
    since_ms: int = 0
    rank: int | None = None
    host_ports: Mapping[str, int] = field(default_factory=dict)
    follow_up: FollowUp | None = None
    history_sequence: int = 0


@dataclass(frozen=True, slots=True)
class FailedStart:
    """An attempt to start a session that failed on an agent.

    The agent is avoided for `avoid_ms` after the proof that nothing of the attempt runs.
    """

    attempt: int
    agent_id: AgentId
    code: str
    detail: str
    at_ms: int
    avoid_ms: int
    avoid_until_ms: int


@dataclass(frozen=True, slots=True)
class KernelRun:
    """Consecutive kernels of a session that differ in nothing but their id."""

    kernel: KernelSpec
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecSummary(SessionOptions):
    """The part of a spec that lists show.

    Its size does not grow with the number of equal kernels.
    """

    session_id: SessionId
    owner: Owner
    scaling_group: ScalingGroupName
    queue: QueueName
    gang_size: int
    group_minimums: Mapping[str, int] = field(default_factory=dict)
    dependencies: tuple[SessionId, ...] = ()
    awaited: tuple[str, ...] = ()
    ends_with: EndPolicy
    array: ArrayMember | None = None
    secrets: tuple[str, ...] = ()
    runs: tuple[KernelRun, ...]

    @classmethod
    def of(cls, spec: SessionSpec) -> SpecSummary:
        """The summary of a spec."""
        runs: list[KernelRun] = []
        last: Any = None
        for kernel in spec.kernels:
            if (kind := _kind_of(kernel)) == last:
                runs[-1] = KernelRun(runs[-1].kernel, runs[-1].count + 1)
            else:
                runs.append(KernelRun(kernel, 1))
            last = kind
        return cls(**{name: getattr(spec, name) for name in _SUMMARIZED}, runs=tuple(runs))

    @property
    def size(self) -> int:
        """The number of kernels."""
        return sum(run.count for run in self.runs)

    def requested_slots(self) -> ResourceSlot:
        """The sum over all kernels."""
        return total(run.kernel.slots * run.count for run in self.runs)

    def kernels(self, indexes: Iterable[int]) -> Iterator[KernelSpec]:
        """The kernels at ascending indexes, each as the first one of its run."""
        runs, end = iter(self.runs), 0
        run = self.runs[0]
        for index in indexes:
            while index >= end:
                run = next(runs)
                end += run.count
            yield run.kernel


_SUMMARIZED = tuple(one.name for one in fields(SpecSummary) if one.name != "runs")
_kind_of = attrgetter(*(one.name for one in fields(KernelSpec) if one.name != "kernel_id"))


@dataclass(frozen=True, slots=True)
class StoredSession(Generic[S]):
    """One session with kernels, in the order of their index.

    `place` is its position in submission order, used for pagination; `since_ms` is
    when it entered its status. `group_domains` are the HyperNodes of its kernel groups, by
    partition and label value. `evictions` are the last ones of its kernels; `checkpoint_ms` is
    when it last reported that its work is saved. `loan` is the queue that lends it what it runs on. `sealed`
    are its secret variables, encrypted; empty without any, and after its end.
    """

    session_id: SessionId
    spec: S
    status: SessionStatus
    version: int
    goal: Goal
    submitted_ms: int
    kernels: tuple[KernelRecord, ...]
    scheduled_ms: int | None = None
    ended_ms: int | None = None
    cause: str | None = None
    cause_detail: str | None = None
    result: SessionResult | None = None
    hypernode: str | None = None
    place: int = 0
    since_ms: int = 0
    failed_starts: tuple[FailedStart, ...] = ()
    group_domains: Mapping[str, str] = field(default_factory=dict)
    sealed: str = field(default="", repr=False)
    evictions: tuple[EvictionReceipt, ...] = ()
    checkpoint_ms: int | None = None
    loan: str | None = None


@dataclass(frozen=True, slots=True)
class SessionSummary(StoredSession[SpecSummary]):
    """One session as lists show it, with its first kernels."""


@dataclass(frozen=True, slots=True)
class SessionRecord(StoredSession[SessionSpec]):
    """One session with its whole spec and all of its kernels."""

    @property
    def attempt(self) -> int:
        """The number of the current attempt to start it."""
        return max(kernel.attempt for kernel in self.kernels)

    def tries(self, attempt: int) -> int:
        """The number of an attempt without those that ended by an eviction."""
        evicted = self.evictions[-1].number if self.evictions else 0
        return max(1, attempt - evicted)

    @property
    def is_retried(self) -> bool:
        """Whether it waits for the end of a failed or evicted attempt, to start anew."""
        return is_retried(self.status, self.goal, self.cause)


@dataclass(frozen=True, slots=True)
class KernelSummary:
    """All kernels of a session in figures; `exit_codes` in the order of the kernels."""

    statuses: Mapping[KernelStatus, int]
    attempt: int = 1
    agents: int = 0
    exited: int = 0
    exit_codes: tuple[int, ...] = ()

    @classmethod
    def of(cls, kernels: Sequence[KernelRecord]) -> KernelSummary:
        """The figures of these kernels."""
        codes = [one.exit_code for one in kernels if one.exit_code is not None]
        return cls(
            statuses=Counter(one.status for one in kernels),
            attempt=max((one.attempt for one in kernels), default=1),
            agents=len({one.agent_id for one in kernels} - {None}),
            exited=len(codes),
            exit_codes=tuple(dict.fromkeys(codes)),
        )


@dataclass(frozen=True, slots=True)
class ArrayRecord:
    """One job array; its sessions are stored by themselves.

    `indexes` is the notation of `domain.arrays`; `place` is its position in submission order.
    The last `unstored` of its sessions are still to be stored.
    """

    array_id: ArrayId
    name: str
    owner: Owner
    scaling_group: str
    queue: str
    indexes: str
    size: int
    at_once: int | None = None
    submitted_ms: int = 0
    place: int = 0
    unstored: int = 0


@dataclass(frozen=True, slots=True)
class ArrayCounts:
    """How many sessions of an array have which status, and how many ended how.

    Those that are still to be stored count as PENDING.
    Users ended those that are `cancelled`; they are not among the `failed` ones.
    """

    statuses: Mapping[SessionStatus, int]
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class KernelMove:
    """A transition to apply to a kernel at the version it was read.

    `failed_start_ms` is set if its agent could not start it: how long to avoid the agent.
    `follow_up` is set if the kernel ends alone: its session goes on.
    """

    kernel: KernelRecord
    trigger: KernelTrigger
    exit_code: int | None = None
    failed_start_ms: int | None = None
    follow_up: FollowUp | None = None


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """One agent, with the version it was read at.

    The labels of `info` are those that the agent reported and, with precedence, those that
    operators gave it. `stamp` differs whenever anything was written of the agent.
    """

    info: AgentInfo
    version: int
    devices: tuple[Device, ...] = ()
    reported_labels: Mapping[str, str] = field(default_factory=dict)
    operator_labels: Mapping[str, str] = field(default_factory=dict)
    stamp: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator: `units` of `slot`; 1 for exclusive use.

    With a `fault` it gets no new kernels.
    """

    device_id: str
    slot: str
    units: int = 1
    fault: str = ""


@dataclass(frozen=True, slots=True)
class HeldSlot:
    """One ledger line: an amount that a kernel holds, or held until it was freed."""

    kernel_id: KernelId
    agent_id: AgentId
    incarnation: int
    slot: str
    amount: int
    held_ms: int
    freed_ms: int | None = None
    proof: FreeProof | None = None


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """Units of a device that a kernel holds, with the session of it and its owner."""

    agent_id: AgentId
    device_id: str
    units: int
    session_id: SessionId
    name: str
    queue: str
    user: str
    domain: str


@dataclass(frozen=True, slots=True)
class DeviceHold:
    """A device that was held from a time to a time, which is None while it is."""

    device: HeldDevice
    from_ms: int
    to_ms: int | None


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """Room of an agent that is kept for a waiting session.

    From `from_ms` on; None if what is there is being released already.
    """

    agent_id: AgentId
    session_id: SessionId
    name: str
    user: str
    domain: str
    kernels: int
    from_ms: int | None


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """When devices of agents were held, and the room on them that is kept for others."""

    holds: Sequence[DeviceHold]
    kept: Sequence[KeptRoom]


@dataclass(frozen=True, slots=True)
class HeldPort:
    """A port of an agent that a kernel has leased, or that rests until a time."""

    agent_id: AgentId
    port: int
    session_id: SessionId
    until_ms: int | None = None


def new_kernels(spec: SessionSpec, submitted_ms: int) -> Iterator[KernelRecord]:
    """The kernels of a session as they are stored first."""
    session_id, status = spec.session_id, KernelStatus.PENDING
    return (
        KernelRecord(
            one.kernel_id,
            session_id,
            index,
            status,
            FIRST_VERSION,
            one.slots,
            since_ms=submitted_ms,
            history_sequence=1,
        )
        for index, one in enumerate(spec.kernels)
    )


def is_retried(status: SessionStatus, goal: Goal, cause: str | None) -> bool:
    """Whether a session goes back to PENDING: only one that ends has a cause."""
    return status is SessionStatus.TERMINATING and goal is Goal.RUN and cause is None


def result_of(trigger: KernelTrigger, exit_codes: Iterable[int | None]) -> SessionResult:
    """The result of a session whose first kernels ended by `trigger`.

    Only kernels that exited by themselves with code 0 count as success: dependents of
    a session that was stopped, failed or timed out must not start. The exception is
    `ended_by_user`.
    """
    codes = list(exit_codes)
    if trigger is KernelTrigger.EXITED and codes and all(code == 0 for code in codes):
        return SessionResult.SUCCESS
    return SessionResult.FAILURE


def ended_by_user(
    session_type: SessionType, status: SessionStatus, exit_codes: Iterable[int | None], *, by: Cause
) -> bool:
    """Whether stopping this session counts as success: its user has finished with it.

    An interactive session cannot succeed in any other way. It must be running, no kernel
    may have failed, and the stop must come from a user, not from a policy.
    """
    stopped = session_type is SessionType.INTERACTIVE and status is SessionStatus.RUNNING and by is Cause.CONTROLLER
    return stopped and all(code in {None, 0} for code in exit_codes)


def submitted_events(at_ms: int, specs: Iterable[SessionSpec]) -> list[SessionsSubmitted]:
    """The events of new sessions: one for each owner, which names few of thousands."""
    of_owner: dict[tuple[str, str], list[SessionId]] = {}
    for spec in specs:
        of_owner.setdefault((spec.owner.user, spec.owner.domain), []).append(spec.session_id)
    return [
        SessionsSubmitted(at_ms=at_ms, session_ids=tuple(ids[:SUBMITTED_NAMED_MAX]), count=len(ids))
        for ids in of_owner.values()
    ]
