"""The errors raised on purpose, each with a stable code and a hint.

SokovanError                 base of every error raised on purpose
├── InvalidInput             a value written by a person or a peer is not valid
│   ├── InvalidName          a name has characters or a length that is not allowed
│   ├── InvalidSlots         a text or mapping cannot be read as resource slots
│   ├── InvalidTopology      HyperNodes that do not form a tree over the agents
│   ├── InvalidQueues        queues that do not form a tree, or an inconsistent queue
│   └── InvalidSpec          a session, deployment, policy or other spec that is inconsistent
├── ObjectNotFound           an object that does not exist, or that the caller may not see
├── StaleVersion             the object was changed concurrently
├── Conflict                 the state of the object does not allow the request
│   ├── AlreadyExists        an object that is only to be created has been created already
│   ├── BookingConflict      agents that are in use, or booked, when a booking begins
│   └── IdempotencyConflict  the same key was used for another request
├── FencedOut                a coordinator wrote after it had lost its lease
├── StoreUnavailable         the database does not answer; nothing was committed
│   └── OutcomeUnknown       the connection was lost during a commit; the outcome is not known
├── SlotUnderflow            an amount would fall below zero
├── TopologyMismatch         a lookup of a name that the topology does not contain
└── LifecycleError           a transition that a state machine does not offer
    ├── InvalidTable         the rows of a transition table are inconsistent
    ├── IllegalTransition    a transition that the table does not contain
    └── ForbiddenCause       a transition that exists, but not for this cause
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import ClassVar

# A message quotes the input, so that the reader can find it; a huge input must not flood a log.
QUOTED_MAX = 80


def _article(what: str) -> str:
    return "an" if what[:1] in "aeio" else "a"


def quoted(value: object) -> str:
    """The value as it was written, shortened if it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of too many digits, a list nested too deep
        text = f"an unprintable {type(value).__name__}"
    return text if len(text) <= QUOTED_MAX else f"{text[:QUOTED_MAX]}… ({len(text)} characters)"


def listed(names: Iterable[str], *, nothing: str = "none") -> str:
    """The names sorted, for the part of a message that lists what is allowed."""
    return ", ".join(sorted(names)) or nothing


def nearest(name: str, known: Iterable[str]) -> str:
    """The advice for an unknown name: the most similar known one, else all of them."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {listed(names)}"


class SokovanError(Exception):
    """Base of every error raised on purpose: message, stable code and hint.

    `code` never changes once released; API, CLI and documentation rely on it.
    """

    code: ClassVar[str] = "internal"
    hint: str = "this is a bug in sokovan; please report it with the message above"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        if hint:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint} [{self.code}]"


class InvalidInput(SokovanError):
    """A value written by a person or a peer is not valid."""

    code = "invalid-input"
    hint = "correct the value named above"


class InvalidName(InvalidInput):
    """A name has characters or a length that is not allowed."""

    code = "invalid-name"
    hint = "use 1 to 128 letters, digits and . _ - / : @ + beginning with a letter or digit"

    def __init__(self, *, what: str, name: object, hint: str = "") -> None:
        self.what, self.name = what, name
        super().__init__(f"{quoted(name)} is not a name for {_article(what)} {what}", hint=hint)


class InvalidSlots(InvalidInput):
    """A text or mapping cannot be read as resource slots."""

    code = "invalid-slots"
    hint = "write slots as name=amount, for example cpu=2 mem=4Gi cuda.device=1"

    def __init__(self, *, given: object, problem: str, hint: str = "") -> None:
        self.given, self.problem = given, problem
        super().__init__(f"cannot read slots {quoted(given)}: {problem}", hint=hint)


class InvalidTopology(InvalidInput):
    """HyperNodes that do not form a tree over the agents."""

    code = "invalid-topology"
    hint = "each HyperNode has one parent of a higher tier, and members that exist, by their exact names"

    def __init__(self, *, hypernode: str = "", problem: str, hint: str = "") -> None:
        self.hypernode, self.problem = hypernode, problem
        super().__init__(f"HyperNode {quoted(hypernode)} {problem}" if hypernode else problem, hint=hint)


class InvalidQueues(InvalidInput):
    """Queues that do not form a tree, or an inconsistent queue."""

    code = "invalid-queues"
    hint = "each queue has one parent that exists (or none), and a guarantee and deserved share within its capability"

    def __init__(self, *, queue: str, problem: str, hint: str = "") -> None:
        self.queue, self.problem = queue, problem
        super().__init__(f"queue {quoted(queue)} {problem}", hint=hint)


class InvalidSpec(InvalidInput):
    """A spec that is inconsistent or out of bounds."""

    code = "invalid-spec"
    hint = "correct the field named above and submit again"

    def __init__(self, *, what: str, field: str, value: object, problem: str, hint: str = "") -> None:
        self.what, self.field, self.value, self.problem = what, field, value, problem
        super().__init__(f"{what}: {field} = {quoted(value)}: {problem}", hint=hint)

    @property
    def path(self) -> str:
        """The path of the field in a request; keys keep their dots: `labels/a.b`."""
        return self.field.replace(".", "/", 1)


class ObjectNotFound(SokovanError):
    """An object that does not exist, or that the caller may not see."""

    code = "not-found"
    hint = "check the name; it may have been removed"

    def __init__(self, *, what: str, name: str, hint: str = "") -> None:
        self.what, self.name = what, name
        super().__init__(f"there is no {what} {quoted(name)}", hint=hint)


class StaleVersion(SokovanError):
    """The object was changed since it was read."""

    code = "stale-version"
    hint = "read the object again and decide again"

    def __init__(self, *, what: str, name: str, expected: object, found: object) -> None:
        self.what, self.name, self.expected, self.found = what, name, expected, found
        super().__init__(f"{what} {quoted(name)} is now at {found}, not at {expected}")


class Conflict(SokovanError):
    """The state of the object does not allow the request."""

    code = "conflict"
    hint = "check the object named above, and change or remove what blocks the request"


class AlreadyExists(Conflict):
    """There is an object of this name, and it is not to be replaced."""

    code = "already-exists"
    hint = "choose another name, or replace the object on purpose"

    def __init__(self, *, what: str, name: str) -> None:
        self.what, self.name = what, name
        super().__init__(f"there is {_article(what)} {what} {quoted(name)} already")


class BookingConflict(Conflict):
    """A booking cannot be met at its time."""

    code = "booking-conflict"
    hint = "choose another time, or other agents"


class IdempotencyConflict(Conflict):
    """An idempotency key was used again for a different request."""

    code = "idempotency-conflict"
    hint = "use a new key for a new request; repeat a request with the same key and the same body"


class FencedOut(SokovanError):
    """A coordinator wrote after it had lost its lease; the write was rejected."""

    code = "fenced-out"
    hint = "this process is no longer the leader; it steps down and tries to acquire the lease again"

    def __init__(self, *, lease: str, epoch: int, current: int | None) -> None:
        self.lease, self.epoch, self.current = lease, epoch, current
        super().__init__(f"lease {quoted(lease)} is at epoch {current}, the write was for epoch {epoch}")


class StoreUnavailable(SokovanError):
    """The database does not answer; nothing was committed."""

    code = "store-unavailable"
    hint = "check that the database runs and is reachable, then retry"


class OutcomeUnknown(StoreUnavailable):
    """The connection was lost during a commit: all of it was stored, or nothing."""

    code = "outcome-unknown"
    hint = "once the database is back, check the state first; a request with an idempotency key can be repeated safely"


class SlotUnderflow(SokovanError):
    """An amount would fall below zero; amounts are never clamped."""

    code = "slot-underflow"
    hint = "an amount was freed twice or never taken; run the auditor before any manual repair"

    def __init__(self, *, slot: str, have: int, taken: int) -> None:
        self.slot, self.have, self.taken = slot, have, taken
        super().__init__(f"cannot take {taken} {slot} from {have}")


class TopologyMismatch(SokovanError):
    """A lookup of an agent or HyperNode that the topology does not contain."""

    code = "topology-mismatch"
    hint = "the topology changed since the name was read; read it again"

    def __init__(self, *, name: str) -> None:
        self.name = name
        super().__init__(f"the topology has no agent or HyperNode {quoted(name)}")


class LifecycleError(SokovanError):
    """A transition that a state machine does not offer."""

    code = "lifecycle"
    hint = "read the object again: its state has changed since the decision"


class InvalidTable(LifecycleError):
    """The rows of a transition table are inconsistent."""

    code = "invalid-table"
    hint = "correct the rows of the table in sokovan.domain.lifecycle"

    def __init__(self, *, machine: str, problem: str) -> None:
        self.machine, self.problem = machine, problem
        super().__init__(f"the {machine} table {problem}")


class IllegalTransition(LifecycleError):
    """A transition that the lifecycle's table does not contain."""

    code = "illegal-transition"

    def __init__(self, *, machine: str, state: str, trigger: str, legal: Sequence[str]) -> None:
        self.machine, self.state, self.trigger, self.legal = machine, state, trigger, tuple(legal)
        options = ", ".join(legal) or "none, the state is final"
        super().__init__(f"{machine} in {state} cannot take {trigger}; legal here: {options}")


class ForbiddenCause(LifecycleError):
    """A transition that exists, but not for this cause."""

    code = "forbidden-cause"
    hint = "controllers mark, coordinators execute, agents report; use the cause named above"

    def __init__(self, *, machine: str, trigger: str, cause: str, allowed: Iterable[str]) -> None:
        self.machine, self.trigger, self.cause, self.allowed = machine, trigger, cause, tuple(sorted(allowed))
        super().__init__(f"{trigger} of a {machine} may come from {listed(self.allowed)}, not from {cause}")
