"""The states of a session, as far as a client has to know them."""

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
FINAL = frozenset({"TERMINATED", "CANCELLED"})
# What people wait for most, and no single state.
ENDED = "ENDED"

_ENDING = STATES.index("TERMINATING")


def state_of(view: SessionView) -> str:
    """The state of a session in capitals, as people read it."""
    return view.status.upper()


def is_final(view: SessionView) -> bool:
    """Whether nothing more will happen to a session."""
    return state_of(view) in FINAL


def has_settled(view: SessionView) -> bool:
    """Whether its kernels are gone: it has ended, or waits for others."""
    return is_final(view) or state_of(view) == "PENDING"


def has_run(view: SessionView) -> bool:
    """Whether a kernel of the session ran: a session that failed to start did not."""
    return state_of(view) == "RUNNING" or any(kernel.exit_code is not None for kernel in view.kernels)


def needs_explaining(view: SessionView) -> bool:
    """Whether somebody may ask why: it neither runs nor ended well."""
    return state_of(view) != "RUNNING" and view.result != "success"


def where(view: SessionView) -> list[str]:
    """The machines of a session, each once, in the order of its kernels."""
    return list(dict.fromkeys(kernel.agent for kernel in view.kernels if kernel.agent))


def checked_state(name: str) -> str:
    """The name of a state in capitals. Raises InvalidSetting."""
    state = name.upper()
    if state not in STATES and state != ENDED:
        raise InvalidSetting(
            f"{name[:80]!r} is not a state of a session", hint=f"use one of {', '.join(STATES)}, {ENDED}"
        )
    return state


def reached(view: SessionView, target: str) -> bool:
    """Whether a session is, or has been, where it is waited for. Raises NeverReached."""
    state = state_of(view)
    if target in {state, ENDED}:
        return target == state or state in FINAL
    if target == "CANCELLED" or state == "CANCELLED":
        return _unless_final(view, target)
    if state not in STATES:  # a state of a later version: it says nothing to us
        return False
    if STATES.index(state) < _ENDING:
        return STATES.index(state) > STATES.index(target)
    if target in {"TERMINATING", "TERMINATED"}:
        return state == "TERMINATED"
    return has_run(view) or (target == "PENDING") or _unless_final(view, target)


def still_waiting(ref: str, last: SessionView | None, timeout_s: float | None) -> StillWaiting:
    """The error for time that is up; `last` is how the session was seen last."""
    told = f"{last.name} is still {state_of(last)}" if last is not None else f"{ref} has not been heard of"
    name = ref if last is None else last.name
    hint = f"see why: sokovan why {name}; wait longer with --timeout, or end it with sokovan stop {name}"
    return StillWaiting(f"{told} after {timeout_s:g} s", hint=hint)


def _unless_final(view: SessionView, target: str) -> bool:
    if is_final(view):
        told = f": {view.reason_detail or view.reason}" if view.reason_detail or view.reason else ""
        raise NeverReached(
            f"{view.name} is {state_of(view)} and never was {target}{told}",
            hint=f"see why: sokovan session history {view.name}",
        )
    return False
