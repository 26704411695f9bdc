"""What can go wrong, in words a user can act on.

SokovanError                 base of every error raised on purpose
├── InvalidInput             something a person or a peer wrote cannot be taken as it is
│   ├── InvalidName          a name has characters or a length that names may not have
│   ├── InvalidSlots         a text or mapping cannot be read as resource slots
│   │   └── UnknownSlot      a slot that the scaling group does not know
│   ├── InvalidTopology      HyperNodes that do not form a tree over the agents
│   ├── InvalidQueues        queues that do not form a tree, or a queue that contradicts itself
│   └── InvalidSpec          a session, deployment, policy or other spec that contradicts itself
├── ObjectNotFound           an object that is not there, or not for the one who asks
├── StaleVersion             somebody else changed the object first
├── Conflict                 the object is in the way of what was asked for
│   └── IdempotencyConflict  the same key was used for another request
├── FencedOut                a coordinator wrote after another had taken over
├── StoreUnavailable         the database does not answer; nothing was half done
│   └── OutcomeUnknown       it went away during a commit and did not come back in time
├── SlotUnderflow            more would be taken away than is there
├── TopologyMismatch         a question about a name that the topology does not have
└── LifecycleError           a state machine was asked for what it does not offer
    ├── InvalidTable         the rows of a transition table contradict each other
    ├── IllegalTransition    a move that the table does not have
    └── ForbiddenCause       a move that exists, but not for this cause
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

# A message quotes what was written, so that the reader can find it; a huge input must not flood a log.
QUOTED_MAX = 80


def _article(what: str) -> str:
    return "an" if what[:1] in "aeiou" else "a"


def quoted(value: object) -> str:
    """The value as the reader wrote it, shortened if it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of too many digits, a list nested too deep
        text = f"an unprintable {type(value).__name__}"
    return text if len(text) <= QUOTED_MAX else f"{text[:QUOTED_MAX]}… ({len(text)} characters)"


def listed(names: Iterable[str], *, nothing: str = "none") -> str:
    """Names in order, for the part of a message that says what is allowed."""
    return ", ".join(sorted(names)) or nothing


class SokovanError(Exception):
    """Base of every error raised on purpose: what happened, to what, what next.

    `code` never changes once released; API, CLI and documentation all key on it.
    """

    code: ClassVar[str] = "internal"
    hint: str = "this is a defect of sokovan; please report it with the message above"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        if hint:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint} [{self.code}]"


class InvalidInput(SokovanError):
    """Something that was written cannot be taken as it is."""

    code = "invalid-input"
    hint = "mend the value named above"


class InvalidName(InvalidInput):
    """A name has characters or a length that names may not have."""

    code = "invalid-name"
    hint = "use 1 to 128 letters, digits and . _ - / : @ + beginning with a letter or digit"

    def __init__(self, *, what: str, name: object) -> None:
        self.what, self.name = what, name
        super().__init__(f"{quoted(name)} is not a name for {_article(what)} {what}")


class InvalidSlots(InvalidInput):
    """A text or mapping cannot be read as resource slots."""

    code = "invalid-slots"
    hint = "write slots as name=amount, for example cpu=2 mem=4Gi cuda.device=1"

    def __init__(self, *, given: object, problem: str, hint: str = "") -> None:
        self.given, self.problem = given, problem
        super().__init__(f"cannot read slots {quoted(given)}: {problem}", hint=hint)


class UnknownSlot(InvalidSlots):
    """A slot that the scaling group does not know."""

    code = "unknown-slot"
    hint = "ask for the slots that are listed, or have an admin add the slot to the scaling group"

    def __init__(self, *, slot: str, known: Iterable[str], where: str) -> None:
        self.slot, self.known, self.where = slot, tuple(sorted(known)), where
        super().__init__(
            given=slot, problem=f"{where} knows {listed(self.known, nothing='no slots at all')}, not {slot}"
        )


class InvalidTopology(InvalidInput):
    """HyperNodes that do not form a tree over the agents."""

    code = "invalid-topology"
    hint = "each HyperNode has one parent of a higher tier, and members that exist, by their exact names"

    def __init__(self, *, hypernode: str, problem: str, hint: str = "") -> None:
        self.hypernode, self.problem = hypernode, problem
        super().__init__(f"HyperNode {quoted(hypernode)} {problem}", hint=hint)


class InvalidQueues(InvalidInput):
    """Queues that do not form a tree, or a queue that contradicts itself."""

    code = "invalid-queues"
    hint = "each queue has one parent that exists (or none), and a guarantee and deserved share within its capability"

    def __init__(self, *, queue: str, problem: str, hint: str = "") -> None:
        self.queue, self.problem = queue, problem
        super().__init__(f"queue {quoted(queue)} {problem}", hint=hint)


class InvalidSpec(InvalidInput):
    """A spec that contradicts itself or leaves its bounds."""

    code = "invalid-spec"
    hint = "mend the field named above and submit again"

    def __init__(self, *, what: str, field: str, value: object, problem: str, hint: str = "") -> None:
        self.what, self.field, self.value, self.problem = what, field, value, problem
        super().__init__(f"{what}: {field} = {quoted(value)}: {problem}", hint=hint)


class ObjectNotFound(SokovanError):
    """An object that is not there."""

    code = "not-found"
    hint = "check the name; it may have been removed"

    def __init__(self, *, what: str, name: str) -> None:
        self.what, self.name = what, name
        super().__init__(f"there is no {what} {quoted(name)}")


class StaleVersion(SokovanError):
    """The object changed since it was read; read again and decide again."""

    code = "stale-version"
    hint = "read the object again and decide again"

    def __init__(self, *, what: str, name: str, expected: object, found: object) -> None:
        self.what, self.name, self.expected, self.found = what, name, expected, found
        super().__init__(f"{what} {quoted(name)} is at {found} now, not at {expected}")


class Conflict(SokovanError):
    """The object is in the way of what was asked for."""

    code = "conflict"
    hint = "look at the object named above, and change or remove what stands in the way"


class IdempotencyConflict(Conflict):
    """The same idempotency key came with another request."""

    code = "idempotency-conflict"
    hint = "use a new key for a new request; repeat a request with the key and the body it had"


class FencedOut(SokovanError):
    """A coordinator wrote after another had taken over; its write was refused."""

    code = "fenced-out"
    hint = "this process is no longer the leader; it steps down and tries for the lease again"

    def __init__(self, *, lease: str, epoch: int, current: int | None) -> None:
        self.lease, self.epoch, self.current = lease, epoch, current
        super().__init__(f"lease {quoted(lease)} is at epoch {current}, the write was for epoch {epoch}")


class StoreUnavailable(SokovanError):
    """The database does not answer; nothing was half done."""

    code = "store-unavailable"
    hint = "check that the database runs and is reachable, then try again"


class OutcomeUnknown(StoreUnavailable):
    """The database went away during a commit: all was done, or nothing."""

    code = "outcome-unknown"
    hint = (
        "once the database is back, look before you repeat; a request with an idempotency key may be repeated as it is"
    )


class SlotUnderflow(SokovanError):
    """More would be taken away than is there; amounts are never clamped."""

    code = "slot-underflow"
    hint = "an amount was freed twice or never taken; run the auditor before anything is repaired by hand"

    def __init__(self, *, slot: str, have: int, taken: int) -> None:
        self.slot, self.have, self.taken = slot, have, taken
        super().__init__(f"cannot take {taken} {slot} from {have}")


class TopologyMismatch(SokovanError):
    """A question about an agent or HyperNode that the topology does not have."""

    code = "topology-mismatch"
    hint = "the topology changed since the name was read; read it again"

    def __init__(self, *, name: str) -> None:
        self.name = name
        super().__init__(f"the topology has no agent or HyperNode {quoted(name)}")


class LifecycleError(SokovanError):
    """A state machine was asked for what it does not offer."""

    code = "lifecycle"
    hint = "read the object again: its state has changed since the decision was taken"


class InvalidTable(LifecycleError):
    """The rows of a transition table contradict each other."""

    code = "invalid-table"
    hint = "mend the rows of the table in sokovan.domain.lifecycle"

    def __init__(self, *, machine: str, problem: str) -> None:
        self.machine, self.problem = machine, problem
        super().__init__(f"the {machine} table {problem}")


class IllegalTransition(LifecycleError):
    """A lifecycle was asked for a move that its table does not have."""

    code = "illegal-transition"

    def __init__(self, *, machine: str, state: str, trigger: str, legal: Sequence[str]) -> None:
        self.machine, self.state, self.trigger, self.legal = machine, state, trigger, tuple(legal)
        options = ", ".join(legal) or "nothing, it is final"
        super().__init__(f"{machine} in {state} cannot take {trigger}; legal here: {options}")


class ForbiddenCause(LifecycleError):
    """A move that exists, but which this cause may not make."""

    code = "forbidden-cause"
    hint = "a controller only marks, a coordinator does the work, an agent only reports; use the one named above"

    def __init__(self, *, machine: str, trigger: str, cause: str, allowed: Iterable[str]) -> None:
        self.machine, self.trigger, self.cause, self.allowed = machine, trigger, cause, tuple(sorted(allowed))
        super().__init__(f"{trigger} of a {machine} may come from {listed(self.allowed)}, not from {cause}")
