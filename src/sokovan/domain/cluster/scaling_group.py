"""Scaling groups: pools of agents that are scheduled together, by one policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sokovan.domain.checks import require_int, require_kind, require_tuple
from sokovan.domain.cluster.mount_roots import OWN_FOLDERS, require_mount_roots, roots_of
from sokovan.domain.errors import InvalidSpec, nearest
from sokovan.domain.ids import QueueName, ScalingGroupName, checked_name
from sokovan.domain.owners.past_usage import HALF_LIFE_DEFAULT_S, HALF_LIFE_MAX_S, SLOT_WEIGHT_MAX
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.session import SessionType
from sokovan.domain.slots import AMOUNT_MAX, checked_slot_name

SLOT_PRIORITY_DEFAULT = ("cuda.device", "cuda.shares", "rocm.device", "tpu.device", "cpu", "mem")
SLOTS_MAX = 64
ASSIGNED_MAX = 1_000
# Times of a scaling group are at most a year.
GROUP_TIME_MAX_S = 366 * 24 * 3_600
# Best-effort kernels have no limit of their own, so that few of them share an agent.
BEST_EFFORT_PER_AGENT_DEFAULT = 16
BEST_EFFORT_PER_USER_DEFAULT = 8
BEST_EFFORT_COUNT_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class ScalingGroup:
    """A pool of agents with the names of its scheduling plugins.

    An empty `known_slots` means the slots that its agents have, and those of
    `slot_priority`. The plugin registry checks that the named plugins exist. A kernel that
    requests no memory gets `mem_per_gpu_bytes` per accelerator, else `mem_per_cpu_bytes`
    per cpu; None means its share of an agent's memory. Past usage halves in
    `usage_half_life_s`; `slot_weights` say how much one core, GiB or device of a slot
    counts in it. It takes sessions of `session_types`, of all types if empty; one that is
    not `public` only those of the owners of `assigned_to`, each as `group:nlp`. Its
    sessions wait in `default_queue` if they name none, and run at most `lifetime_max_s`.
    Interactive sessions that set no idle timeout get `idle_timeout_s`, else the longest,
    `idle_timeout_max_s`. They mount folders of its agents only beneath `mount_roots`. Kernels
    that request no slots (best-effort ones) are accepted with `allow_best_effort` only; at most
    so many of them run on an agent and of a user here.
    """

    name: ScalingGroupName
    scheduler: str = "fifo"
    scheduler_opts: Mapping[str, object] = field(default_factory=dict)
    known_slots: tuple[str, ...] = ()
    slot_priority: tuple[str, ...] = SLOT_PRIORITY_DEFAULT
    pending_timeout_s: int | None = None
    usage_half_life_s: int = HALF_LIFE_DEFAULT_S
    slot_weights: Mapping[str, int] = field(default_factory=dict)
    mem_per_gpu_bytes: int | None = None
    mem_per_cpu_bytes: int | None = None
    session_types: tuple[SessionType, ...] = ()
    public: bool = True
    assigned_to: tuple[str, ...] = ()
    default_queue: QueueName | None = None
    lifetime_max_s: int | None = None
    idle_timeout_s: int | None = None
    idle_timeout_max_s: int | None = None
    allow_best_effort: bool = False
    best_effort_per_agent_max: int = BEST_EFFORT_PER_AGENT_DEFAULT
    best_effort_per_user_max: int = BEST_EFFORT_PER_USER_DEFAULT
    mount_roots: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checked_name(self.name, what="scaling group")
        what = f"scaling group {self.name}"
        checked_name(self.scheduler, what="scheduler")
        if not isinstance(self.scheduler_opts, Mapping):
            raise InvalidSpec(what=what, field="scheduler_opts", value=self.scheduler_opts, problem="must be a mapping")
        for name in ("known_slots", "slot_priority"):
            self._check_slots(name, what)
        for name in ("pending_timeout_s", "lifetime_max_s", "idle_timeout_s", "idle_timeout_max_s"):
            if getattr(self, name) is not None:
                require_int(getattr(self, name), what=what, field=name, least=1, most=GROUP_TIME_MAX_S)
        default_s, longest_s = self.idle_timeout_s, self.idle_timeout_max_s
        if default_s is not None and longest_s is not None and default_s > longest_s:
            problem = f"is more than the longest, {longest_s}"
            raise InvalidSpec(what=what, field="idle_timeout_s", value=default_s, problem=problem)
        for name in ("mem_per_gpu_bytes", "mem_per_cpu_bytes"):
            if getattr(self, name) is not None:
                require_int(getattr(self, name), what=what, field=name, least=1, most=AMOUNT_MAX)
        require_int(self.usage_half_life_s, what=what, field="usage_half_life_s", least=1, most=HALF_LIFE_MAX_S)
        self._check_weights(what)
        self._check_admission(what)
        require_mount_roots(self.mount_roots, what=what)

    def _check_slots(self, name: str, what: str) -> None:
        slots = getattr(self, name)
        require_tuple(slots, str, what=what, field=name)
        if len(slots) > SLOTS_MAX or len(set(slots)) < len(slots):
            problem = f"must be at most {SLOTS_MAX} slots, each once"
            raise InvalidSpec(what=what, field=name, value=slots, problem=problem)
        for slot in slots:
            checked_slot_name(slot, given=slot)

    def _check_admission(self, what: str) -> None:
        require_tuple(self.session_types, SessionType, what=what, field="session_types")
        require_kind(self.public, bool, what=what, field="public")
        require_kind(self.allow_best_effort, bool, what=what, field="allow_best_effort")
        for name in ("best_effort_per_agent_max", "best_effort_per_user_max"):
            require_int(getattr(self, name), what=what, field=name, least=0, most=BEST_EFFORT_COUNT_MAX)
        require_tuple(self.assigned_to, str, what=what, field="assigned_to")
        if len(self.assigned_to) > ASSIGNED_MAX:
            problem = f"must be at most {ASSIGNED_MAX} owners"
            raise InvalidSpec(what=what, field="assigned_to", value=len(self.assigned_to), problem=problem)
        for text in self.assigned_to:
            read_assignment(text, what=what)
        if self.default_queue is not None:
            checked_name(self.default_queue, what="queue")

    def _check_weights(self, what: str) -> None:
        if not isinstance(self.slot_weights, Mapping):
            raise InvalidSpec(what=what, field="slot_weights", value=self.slot_weights, problem="must be a mapping")
        for slot, weight in self.slot_weights.items():
            checked_slot_name(slot, given=slot)
            require_int(weight, what=what, field=f"slot_weights.{slot}", least=0, most=SLOT_WEIGHT_MAX)

    def times_out_ms(self, eligible_ms: int | None) -> int | None:
        """When a session that could start since then is cancelled; None if never."""
        if self.pending_timeout_s is None or eligible_ms is None:
            return None
        return eligible_ms + self.pending_timeout_s * 1000

    def idle_timeout_of(self, session_type: SessionType, requested_s: int | None) -> int | None:
        """The idle timeout of a session: as requested, else the default, else the longest."""
        if session_type is not SessionType.INTERACTIVE or requested_s is not None:
            return requested_s
        return self.idle_timeout_max_s if self.idle_timeout_s is None else self.idle_timeout_s

    def takes(self, session_type: SessionType) -> bool:
        """Whether it takes sessions of this type."""
        return not self.session_types or session_type in self.session_types

    def folders_of(self, owner: Owner, *, is_alone: bool) -> tuple[str, ...]:
        """The roots of folders for sessions of an owner, who may be alone on the system."""
        return (*roots_of(self.mount_roots, owner), *(OWN_FOLDERS if is_alone else ()))

    def is_open_to(self, owner: Owner) -> bool:
        """Whether it is public, or assigned to one of the scopes of an owner."""
        return self.public or any(f"{scope}:{name}" in self.assigned_to for scope, name in owner.scopes)


def read_assignment(text: str, *, what: str) -> tuple[Scope, str]:
    """The owner that `group:nlp` names. Raises InvalidSpec, InvalidName."""
    kind, _, name = text.partition(":")
    if kind not in set(Scope) or not name:
        problem = "must be domain:NAME, group:NAME, user:NAME or keypair:NAME"
        raise InvalidSpec(what=what, field="assigned_to", value=text, problem=problem)
    return Scope(kind), checked_name(name, what=kind)


def read_session_types(texts: Iterable[str], *, what: str) -> tuple[SessionType, ...]:
    """Session types by name, each once. Raises InvalidSpec."""
    found: dict[SessionType, None] = {}
    for text in texts:
        if text not in set(SessionType):
            hint = nearest(str(text), SessionType)
            problem = "is not a session type"
            raise InvalidSpec(what=what, field="session_types", value=text, problem=problem, hint=hint)
        found[SessionType(text)] = None
    return tuple(found)
