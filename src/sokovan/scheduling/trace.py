"""Why a session got what it got: the verdict, in codes, numbers and a sentence."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from sokovan.domain.ids import SessionId
from sokovan.domain.slots import NO_SLOTS, ResourceSlot


class Advice(StrEnum):
    """What the human should do about it."""

    NOTHING = "NOTHING"
    WAIT = "WAIT"
    CHANGE = "CHANGE"
    ASK_ADMIN = "ASK_ADMIN"
    BROKEN = "BROKEN"


class Code(StrEnum):
    """The stable name of a reason. Programs key on it; the sentence may improve."""

    PLACED = "PLACED"
    RESERVED = "RESERVED"
    QUOTA_KEYPAIR = "QUOTA_KEYPAIR"
    QUOTA_USER = "QUOTA_USER"
    QUOTA_GROUP = "QUOTA_GROUP"
    QUOTA_DOMAIN = "QUOTA_DOMAIN"
    CONCURRENCY_LIMIT = "CONCURRENCY_LIMIT"
    PENDING_LIMIT = "PENDING_LIMIT"
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
    NO_NODES = "NO_NODES"
    NODES_DRAINING = "NODES_DRAINING"
    NO_ARCH_MATCH = "NO_ARCH_MATCH"
    NO_LABEL_MATCH = "NO_LABEL_MATCH"
    NEVER_FITS = "NEVER_FITS"
    NOT_ENOUGH_FREE = "NOT_ENOUGH_FREE"
    FRAGMENTED = "FRAGMENTED"
    TOPOLOGY_NO_ROOM = "TOPOLOGY_NO_ROOM"
    TOPOLOGY_IMPOSSIBLE = "TOPOLOGY_IMPOSSIBLE"
    NOT_ENOUGH_KERNELS = "NOT_ENOUGH_KERNELS"
    BEST_EFFORT = "BEST_EFFORT"
    OTHER_SHARD = "OTHER_SHARD"
    NOT_TRIED = "NOT_TRIED"


# What each code asks of the reader, and what it means; the reference page is made from this table.
MEANING: dict[Code, tuple[Advice, str]] = {
    Code.PLACED: (Advice.NOTHING, "kernels were placed in this cycle"),
    Code.RESERVED: (Advice.WAIT, "everything it needs is being released; the places are held for it"),
    Code.QUOTA_KEYPAIR: (Advice.WAIT, "the keypair would pass a resource limit"),
    Code.QUOTA_USER: (Advice.WAIT, "the user would pass a resource limit"),
    Code.QUOTA_GROUP: (Advice.WAIT, "the group would pass a resource limit"),
    Code.QUOTA_DOMAIN: (Advice.WAIT, "the domain would pass a resource limit"),
    Code.CONCURRENCY_LIMIT: (Advice.WAIT, "the keypair has as many sessions as it may have at a time"),
    Code.PENDING_LIMIT: (Advice.WAIT, "earlier waiting sessions of the keypair fill its pending limit"),
    Code.DEPENDENCY: (Advice.WAIT, "a session it depends on has not ended well, or not ended"),
    Code.NOT_YET_BEGIN: (Advice.WAIT, "it asked to start later"),
    Code.REFUSED_BY_PLUGIN: (Advice.CHANGE, "a plugin or validator that was added to this system refuses it"),
    Code.PLUGIN_FAILED: (Advice.BROKEN, "a plugin raised an error on this session"),
    Code.QUEUE_OVER_SHARE: (Advice.WAIT, "the queue has its share in use: others want the rest, or there is no more"),
    Code.QUEUE_LIMIT: (Advice.WAIT, "the queue, or one above it, would pass its capability"),
    Code.QUEUE_CLOSED: (Advice.ASK_ADMIN, "the queue takes no new work"),
    Code.QUEUE_NOT_LEAF: (Advice.CHANGE, "the queue has queues below it; only those run sessions"),
    Code.QUEUE_INVALID: (Advice.BROKEN, "the queue has no valid place in the tree of queues"),
    Code.RESERVED_FOR_GANG: (Advice.WAIT, "the room there is is held for a session that goes first"),
    Code.NO_NODES: (Advice.ASK_ADMIN, "the scaling group has no agents"),
    Code.NODES_DRAINING: (Advice.WAIT, "too few that could hold it take work: agents are drained, or not reachable"),
    Code.NO_ARCH_MATCH: (Advice.CHANGE, "no agent has the architecture it asks for"),
    Code.NO_LABEL_MATCH: (Advice.CHANGE, "no agent has the labels it asks for"),
    Code.NEVER_FITS: (Advice.CHANGE, "even an empty cluster could not hold it"),
    Code.NOT_ENOUGH_FREE: (Advice.WAIT, "no agent has enough free for a kernel of it"),
    Code.FRAGMENTED: (Advice.WAIT, "some kernels would fit, but not as many as must start together"),
    Code.TOPOLOGY_NO_ROOM: (Advice.WAIT, "no part of the network that is close enough has room for it"),
    Code.TOPOLOGY_IMPOSSIBLE: (Advice.CHANGE, "its closeness cannot be met by the network there is"),
    Code.NOT_ENOUGH_KERNELS: (Advice.CHANGE, "it demands more kernels to start together than it has"),
    Code.BEST_EFFORT: (Advice.WAIT, "kernels that ask for nothing are placed by backfill, where there is a place"),
    Code.OTHER_SHARD: (Advice.ASK_ADMIN, "only agents of another shard could hold it, and shards are hard"),
    Code.NOT_TRIED: (Advice.ASK_ADMIN, "no action of the profile places kernels that ask for something"),
}


class Check(NamedTuple):
    """One question that was asked, and the answer: ok, no, or short (of something)."""

    name: str
    result: str
    detail: str = ""


class Funnel(NamedTuple):
    """How many agents are left after each question, for a kernel that found none."""

    all: int
    alive: int
    architecture: int
    labels: int
    could_ever_fit: int
    fits_now: int
    topology: int

    def sentence(self) -> str:
        """`agents 128 → alive 121 → …`, as it is shown to people."""
        names = ("agents", "alive", "architecture", "labels", "could ever fit", "fits now", "topology")
        return " → ".join(f"{name} {count}" for name, count in zip(names, self, strict=True))


class Verdict(NamedTuple):
    """What became of one session in one cycle, and why.

    `kernels_fit` of `kernels_needed` kernels would fit at this instant; `shortfall`
    is against `best_agent`, the candidate that lacks least. `ahead` names the next
    few sessions that go first; `position` counts all of them.
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
    position: int = 0
    ahead: tuple[SessionId, ...] = ()

    @property
    def advice(self) -> Advice:
        """What the reader should do."""
        return MEANING[self.code][0]
