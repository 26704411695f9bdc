"""Objects as the store has them: what was asked for, and what has become of it.

Every record carries the version it was read at. A write names that version, and
loses against whoever wrote in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.deployment import DeploymentStatus
from sokovan.domain.lifecycle.kernel import FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.route import RouteStatus
from sokovan.domain.lifecycle.session import Goal, SessionStatus
from sokovan.domain.lifecycle.transition_table import Cause
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.route import RouteSpec
from sokovan.domain.session import SessionSpec, SessionType
from sokovan.domain.slots import ResourceSlot

DETAIL_MAX = 2_000


class SessionResult(StrEnum):
    """How a session ended, for those who depend on it."""

    SUCCESS = auto()
    FAILURE = auto()


@dataclass(frozen=True, slots=True)
class Change:
    """Why something is written: who, in which role, for which reason.

    `code` is a stable word that programs may key on; `detail` is for people. A NUL in
    it, which no database keeps, becomes the sign for what cannot be shown.
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
    """One line of an object's story: a move, or a reason that it stays where it is.

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
    """One kernel: where it is in its life, and where it runs.

    `devices` says which devices of the agent it holds, by slot.
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


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One session with its kernels, in the order of their index.

    `place` is its place in the order of submission, and in a listing; `since_ms` is
    when it came into the status it has.
    """

    session_id: SessionId
    spec: SessionSpec
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


@dataclass(frozen=True, slots=True)
class KernelMove:
    """A move that was decided on a kernel as it was read."""

    kernel: KernelRecord
    trigger: KernelTrigger
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """One agent, with the version it was read at."""

    info: AgentInfo
    version: int
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator: `units` of `slot`, 1 where it is used by one kernel alone."""

    device_id: str
    slot: str
    units: int = 1


@dataclass(frozen=True, slots=True)
class HeldSlot:
    """One line of the ledger: what a kernel holds, or held until a proof freed it."""

    kernel_id: KernelId
    agent_id: AgentId
    incarnation: int
    slot: str
    amount: int
    held_ms: int
    freed_ms: int | None = None
    proof: FreeProof | None = None


@dataclass(frozen=True, slots=True)
class DeploymentRecord:
    """One deployment: what is wanted is in the spec, and its version counts each wish."""

    spec: DeploymentSpec
    status: DeploymentStatus
    version: int


@dataclass(frozen=True, slots=True)
class RouteRecord:
    """One route with its endpoints."""

    spec: RouteSpec
    status: RouteStatus
    version: int


def result_of(trigger: KernelTrigger, exit_codes: Iterable[int | None]) -> SessionResult:
    """How a session ends whose first kernels ended by `trigger` with these exit codes.

    Only work that came to its own end, with code 0, is a success: who depends on a
    session that was stopped, failed or ran out of time must not start on its ruins.
    What `is_put_down` is the one exception.
    """
    codes = list(exit_codes)
    if trigger is KernelTrigger.EXITED and codes and all(code == 0 for code in codes):
        return SessionResult.SUCCESS
    return SessionResult.FAILURE


def is_put_down(
    session_type: SessionType, status: SessionStatus, exit_codes: Iterable[int | None], *, by: Cause
) -> bool:
    """Whether a session that is stopped now has ended well: its user is done with it.

    An interactive session has no other good end. It must have run, no kernel of it may
    have failed, and somebody must have asked for the stop, not a policy.
    """
    asked = session_type is SessionType.INTERACTIVE and status is SessionStatus.RUNNING and by is Cause.CONTROLLER
    return asked and all(code in {None, 0} for code in exit_codes)
