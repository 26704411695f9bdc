"""DecisionTrace: why each session of a cycle was placed or waits.

A verdict has a stable code, the checks that were made, numbers and a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from sokovan.domain.ids import SessionId
from sokovan.domain.slots import NO_SLOTS, ResourceSlot


class Advice(StrEnum):
    """The action that a verdict suggests to the user."""

    NOTHING = "NOTHING"
    WAIT = "WAIT"
    CHANGE = "CHANGE"
    ASK_ADMIN = "ASK_ADMIN"
    BROKEN = "BROKEN"


class Code(StrEnum):
    """The stable name of a reason. Programs depend on it; the sentence may change."""

    PLACED = "PLACED"
    RESERVED = "RESERVED"
    HELD = "HELD"
    QUOTA_KEYPAIR = "QUOTA_KEYPAIR"
    QUOTA_USER = "QUOTA_USER"
    QUOTA_GROUP = "QUOTA_GROUP"
    QUOTA_DOMAIN = "QUOTA_DOMAIN"
    CONCURRENCY_LIMIT = "CONCURRENCY_LIMIT"
    PENDING_LIMIT = "PENDING_LIMIT"
    ARRAY_LIMIT = "ARRAY_LIMIT"
    DEPENDENCY = "DEPENDENCY"
    NOT_YET_BEGIN = "NOT_YET_BEGIN"
    REFUSED_BY_PLUGIN = "REFUSED_BY_PLUGIN"
    PLUGIN_FAILED = "PLUGIN_FAILED"
    QUEUE_OVER_SHARE = "QUEUE_OVER_SHARE"
    QUEUE_LIMIT = "QUEUE_LIMIT"
    QUEUE_CLOSED = "QUEUE_CLOSED"
    QUEUE_NOT_LEAF = "QUEUE_NOT_LEAF"
    QUEUE_INVALID = "QUEUE_INVALID"
    RESERVED_FOR_GANG = "RESERVED_FOR_GANG"
    BOOKED = "BOOKED"
    BOOKING_INVALID = "BOOKING_INVALID"
    DEADLINE_IMPOSSIBLE = "DEADLINE_IMPOSSIBLE"
    NO_NODES = "NO_NODES"
    NODES_DRAINING = "NODES_DRAINING"
    NO_ARCH_MATCH = "NO_ARCH_MATCH"
    NO_RUNTIME_MATCH = "NO_RUNTIME_MATCH"
    NO_LABEL_MATCH = "NO_LABEL_MATCH"
    AGENTS_TAINTED = "AGENTS_TAINTED"
    AFFINITY = "AFFINITY"
    NEVER_FITS = "NEVER_FITS"
    PORTS_TAKEN = "PORTS_TAKEN"
    NOT_ENOUGH_FREE = "NOT_ENOUGH_FREE"
    FRAGMENTED = "FRAGMENTED"
    TOPOLOGY_NO_ROOM = "TOPOLOGY_NO_ROOM"
    TOPOLOGY_IMPOSSIBLE = "TOPOLOGY_IMPOSSIBLE"
    NOT_ENOUGH_KERNELS = "NOT_ENOUGH_KERNELS"
    BEST_EFFORT = "BEST_EFFORT"
    OTHER_SHARD = "OTHER_SHARD"
    AGENTS_AVOIDED = "AGENTS_AVOIDED"
    AGENTS_FAILING = "AGENTS_FAILING"
    NOT_TRIED = "NOT_TRIED"
    ALLOCATION_REFUSED = "ALLOCATION_REFUSED"
    VICTIMS_PROTECTED = "VICTIMS_PROTECTED"
    EVICTED = "EVICTED"
    BACKING_OFF = "BACKING_OFF"


# The advice and meaning of each code; the reference page is generated from this table.
MEANING: dict[Code, tuple[Advice, str]] = {
    Code.PLACED: (Advice.NOTHING, "kernels were placed in this cycle"),
    Code.RESERVED: (Advice.WAIT, "all the room it needs is left by others, or free by a time, and reserved for it"),
    Code.HELD: (Advice.WAIT, "a scheduling gate holds it until it is released with sokovan session release"),
    Code.QUOTA_KEYPAIR: (Advice.WAIT, "the keypair would exceed a resource limit"),
    Code.QUOTA_USER: (Advice.WAIT, "the user would exceed a resource limit"),
    Code.QUOTA_GROUP: (Advice.WAIT, "the group would exceed a resource limit"),
    Code.QUOTA_DOMAIN: (Advice.WAIT, "the domain would exceed a resource limit"),
    Code.CONCURRENCY_LIMIT: (
        Advice.WAIT,
        "an owner (keypair, user, group or domain) has reached its session limit",
    ),
    Code.PENDING_LIMIT: (
        Advice.WAIT,
        "waiting sessions ahead of it reach the pending limit of an owner",
    ),
    Code.ARRAY_LIMIT: (Advice.WAIT, "as many sessions of its array run as may run at once"),
    Code.DEPENDENCY: (Advice.WAIT, "a session it depends on has failed or has not ended yet"),
    Code.NOT_YET_BEGIN: (Advice.WAIT, "its start time has not come yet"),
    Code.REFUSED_BY_PLUGIN: (Advice.CHANGE, "an installed plugin or validator refuses it"),
    Code.PLUGIN_FAILED: (Advice.BROKEN, "a plugin raised an error on this session"),
    Code.QUEUE_OVER_SHARE: (
        Advice.WAIT,
        "the queue uses its whole share; other queues use or request the rest",
    ),
    Code.QUEUE_LIMIT: (Advice.WAIT, "the queue, or one above it, would exceed its capability"),
    Code.QUEUE_CLOSED: (Advice.ASK_ADMIN, "the queue is closed to new work"),
    Code.QUEUE_NOT_LEAF: (Advice.CHANGE, "the queue has queues below it; only leaf queues run sessions"),
    Code.QUEUE_INVALID: (Advice.BROKEN, "the queue has an invalid parent"),
    Code.RESERVED_FOR_GANG: (Advice.WAIT, "the free room is reserved for a session ahead"),
    Code.BOOKED: (Advice.WAIT, "agents with room are booked before it would have ended"),
    Code.BOOKING_INVALID: (Advice.CHANGE, "its booking has ended, was removed, or does not permit it"),
    Code.DEADLINE_IMPOSSIBLE: (Advice.WAIT, "it can no longer end before its deadline, and waits like any other"),
    Code.NO_NODES: (Advice.ASK_ADMIN, "the scaling group has no agents"),
    Code.NODES_DRAINING: (Advice.WAIT, "agents that could hold it are draining, not reachable or not approved yet"),
    Code.NO_ARCH_MATCH: (Advice.CHANGE, "no agent has the requested architecture"),
    Code.NO_RUNTIME_MATCH: (
        Advice.CHANGE,
        "no agent has the runtime of its image: containers, or processes of the machine",
    ),
    Code.NO_LABEL_MATCH: (Advice.CHANGE, "no agent has the required labels"),
    Code.AGENTS_TAINTED: (Advice.CHANGE, "the agents that could hold it have taints that it does not tolerate"),
    Code.AFFINITY: (
        Advice.WAIT,
        "affinity or anti-affinity to other sessions excludes the agents with room",
    ),
    Code.NEVER_FITS: (Advice.CHANGE, "even an empty cluster, or its booking if it were empty, could not hold it"),
    Code.PORTS_TAKEN: (Advice.WAIT, "agents have room for it, but a port that it needs is leased or rests on each"),
    Code.NOT_ENOUGH_FREE: (Advice.WAIT, "no agent has enough free resources for one of its kernels"),
    Code.FRAGMENTED: (Advice.WAIT, "some kernels would fit, but not as many as must start together"),
    Code.TOPOLOGY_NO_ROOM: (Advice.WAIT, "no HyperNode of an allowed tier has room for it"),
    Code.TOPOLOGY_IMPOSSIBLE: (Advice.CHANGE, "its topology constraint cannot be met by this cluster"),
    Code.NOT_ENOUGH_KERNELS: (Advice.CHANGE, "it requires more kernels to start together than it has"),
    Code.BEST_EFFORT: (
        Advice.WAIT,
        "backfill places best-effort kernels (no slots requested) when an agent has room",
    ),
    Code.OTHER_SHARD: (Advice.ASK_ADMIN, "only agents of another shard could hold it, and shards are hard"),
    Code.AGENTS_AVOIDED: (Advice.WAIT, "the agents that could hold it failed to start it and are avoided for a while"),
    Code.AGENTS_FAILING: (
        Advice.ASK_ADMIN,
        "the agents that could hold it failed to start sessions, and get none until a probe succeeds",
    ),
    Code.NOT_TRIED: (Advice.ASK_ADMIN, "no action of the profile places kernels that request slots"),
    Code.ALLOCATION_REFUSED: (Advice.WAIT, "it was placed, but what the decision relied on had changed at the commit"),
    Code.VICTIMS_PROTECTED: (Advice.WAIT, "it lacks room, and no running session may be evicted for it"),
    Code.EVICTED: (Advice.WAIT, "kernels of it were evicted in this cycle for another session"),
    Code.BACKING_OFF: (Advice.WAIT, "it was evicted lately, and is tried again after a while"),
}


# The result of a check that the session can never pass, so that it is cancelled.
NEVER = "never"
# The check whose detail is the id of the session that the free room is reserved for.
RESERVED_FOR = "reserved-for"


class Check(NamedTuple):
    """One check and its result: ok, no, never, or short (of something)."""

    name: str
    result: str
    detail: str = ""


class Funnel(NamedTuple):
    """How many agents are left after each predicate, for a kernel that fits none."""

    all: int
    alive: int
    architecture: int
    labels: int
    could_ever_fit: int
    fits_now: int
    topology: int
    # Agents that failed to start the session lately: they are not tried for a while.
    avoided: int = 0
    # Agents that could hold the kernel, but for a taint that the session does not tolerate.
    tainted: int = 0
    # Agents that would hold it, and get no kernels because sessions could not be started there.
    failing: int = 0
    # Agents of the architecture that cannot run its image, or only simulate what has to serve requests.
    other_runtime: int = 0

    def sentence(self) -> str:
        """`agents 128 → alive 121 → …`, as it is shown to users."""
        names = ("agents", "alive", "architecture", "labels", "could ever fit", "fits now", "topology")
        text = " → ".join(f"{name} {count}" for name, count in zip(names, self, strict=False))
        counts = (
            (self.other_runtime, "of another runtime"),
            (self.tainted, "tainted"),
            (self.avoided, "avoided"),
            (self.failing, "failing"),
        )
        apart = [f"{count} {what}" for count, what in counts if count]
        return f"{text} ({', '.join(apart)})" if apart else text


class Verdict(NamedTuple):
    """The decision about one session in one cycle, and the reason.

    `kernels_fit` of `kernels_needed` kernels would fit at this moment; `shortfall`
    is against `best_agent`, the candidate that lacks least. `ahead` names the first
    few sessions ahead in the queue; `position` counts all of them. The first running session
    that is protected, because it started too recently, is so until `until_ms`.
    """

    session_id: SessionId
    code: Code
    summary: str
    checks: tuple[Check, ...] = ()
    funnel: Funnel | None = None
    shortfall: ResourceSlot = NO_SLOTS
    best_agent: str | None = None
    kernels_fit: int = 0
    kernels_needed: int = 0
    kernels_placed: int = 0
    until_ms: int | None = None
    position: int = 0
    ahead: tuple[SessionId, ...] = ()

    @property
    def advice(self) -> Advice:
        """The action that the code suggests; waiting does not help if it can never pass."""
        return Advice.CHANGE if self.never else MEANING[self.code][0]

    @property
    def never(self) -> tuple[Check, ...]:
        """The checks that the session can never pass."""
        return tuple(check for check in self.checks if check.result == NEVER)


class DecisionTrace(Mapping[SessionId, Verdict]):
    """The decisions of one cycle: a verdict per session, in the order considered."""

    def __init__(self, verdicts: Iterable[Verdict] = ()) -> None:
        self.verdicts = tuple(verdicts)

    def __getitem__(self, session_id: SessionId) -> Verdict:
        return self._by_session[session_id]

    def __iter__(self) -> Iterator[SessionId]:
        return iter(self._by_session)

    def __len__(self) -> int:
        return len(self._by_session)

    @cached_property
    def _by_session(self) -> dict[SessionId, Verdict]:
        return {verdict.session_id: verdict for verdict in self.verdicts}


def final_verdicts(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts of sessions that can never pass; equal checks are examined once."""
    final: dict[int, bool] = {}
    found = []
    for verdict in verdicts:
        key = id(verdict.checks)
        if key not in final:
            final[key] = bool(verdict.never)
        if final[key]:
            found.append(verdict)
    return found
