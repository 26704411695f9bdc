"""Session states as the client sees them: order, final states, and waiting."""

from __future__ import annotations

from sokovan.sdk.errors import InvalidSetting, NeverReached, StillWaiting
from sokovan.wire.api.sessions import SessionView

STATES = (
    "PENDING",
    "SCHEDULED",
    "PREPARING",
    "PULLING",
    "PREPARED",
    "CREATING",
    "RUNNING",
    "TERMINATING",
    "TERMINATED",
    "CANCELLED",
)
PENDING = STATES[0]
FINAL = frozenset({"TERMINATED", "CANCELLED"})
# A pseudo-state for `wait`: any final state.
ENDED = "ENDED"

_ENDING = STATES.index("TERMINATING")


def state_of(view: SessionView) -> str:
    """State of a session, in capitals."""
    return view.status.upper()


def is_final(view: SessionView) -> bool:
    """Whether a session is in a final state."""
    return state_of(view) in FINAL


def has_settled(view: SessionView) -> bool:
    """Whether it has no kernels any more: it ended or was requeued."""
    return is_final(view) or state_of(view) == "PENDING"


def has_run(view: SessionView) -> bool:
    """Whether a kernel of the session ever ran."""
    return state_of(view) == "RUNNING" or view.exited > 0


def needs_explaining(view: SessionView) -> bool:
    """Whether `why` applies: it neither runs nor succeeded."""
    return state_of(view) != "RUNNING" and view.result != "success"


def where(view: SessionView) -> list[str]:
    """The agents of its first kernels, each once; `view.agents` counts all."""
    return list(dict.fromkeys(kernel.agent for kernel in view.kernels if kernel.agent))


def checked_state(name: str) -> str:
    """Validate the name of a state. Raises InvalidSetting."""
    state = name.upper()
    if state not in STATES and state != ENDED:
        raise InvalidSetting(
            f"{name[:80]!r} is not a state of a session", hint=f"use one of {', '.join(STATES)}, {ENDED}"
        )
    return state


def reached(view: SessionView, target: str) -> bool:
    """Whether a session has reached the target state. Raises NeverReached."""
    state = state_of(view)
    if target in {state, ENDED}:
        return target == state or state in FINAL
    if target == "CANCELLED" or state == "CANCELLED":
        return _unless_final(view, target)
    if state not in STATES:  # a state of a newer server
        return False
    if STATES.index(state) < _ENDING:
        return STATES.index(state) > STATES.index(target)
    if target in {"TERMINATING", "TERMINATED"}:
        return state == "TERMINATED"
    return has_run(view) or (target == "PENDING") or _unless_final(view, target)


def still_waiting(ref: str, last: SessionView | None, timeout_s: float | None) -> StillWaiting:
    """The error for a timeout; `last` is the last known view of the session."""
    status = f"{last.name} is still {state_of(last)}" if last is not None else f"no response for {ref}"
    name = ref if last is None else last.name
    hint = f"see why: sokovan why {name}; wait longer with --timeout, or end it with sokovan stop {name}"
    return StillWaiting(f"{status} after {timeout_s:g} s", hint=hint)


def _unless_final(view: SessionView, target: str) -> bool:
    if is_final(view):
        reason = f": {view.reason_detail or view.reason}" if view.reason_detail or view.reason else ""
        raise NeverReached(
            f"{view.name} is {state_of(view)} and never was {target}{reason}",
            hint=f"see why: sokovan session history {view.name}",
        )
    return False
