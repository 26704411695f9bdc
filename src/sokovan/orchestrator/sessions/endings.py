"""When the own end of kernels is the end of their session. Pure.

A session that goes on keeps its ended kernels as they are: what they hold is freed
together with the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sokovan.domain.ids import KernelId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.domain.session import EndPolicy
from sokovan.domain.slot_notation import format_amount
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_report
from sokovan.ports.runtime import OUT_OF_MEMORY

COMPLETED = "completed"
FAILED = "kernel-failed"
EXITED = "kernel-exited"
_SAID_MAX = 5
# Nobody waits for these: they have left, or never came. A gang that has worked with fewer does not begin anew.
_ABSENT = frozenset({KernelStatus.PENDING, KernelStatus.TERMINATING, KernelStatus.TERMINATED, KernelStatus.CANCELLED})


class Exit(NamedTuple):
    """How a kernel has ended by itself; `reason` where more is known than its code."""

    code: int
    reason: str = ""


def deciding(session: SessionRecord, exits: Mapping[KernelId, Exit]) -> tuple[KernelId, ...]:
    """The kernels whose end is the session's; none if it goes on.

    `exits` are the kernels that have ended by themselves. A failure ends
    the session, unless failures are tolerated; then it counts as an end like any other.
    """
    spec = session.spec
    failed = () if spec.tolerates_failures else tuple(kernel for kernel, one in exits.items() if one.code != 0)
    main = session.kernels[0].kernel_id
    if spec.ends_with is EndPolicy.MAIN:
        return failed or ((main,) if main in exits else ())
    if spec.ends_with is EndPolicy.ANY:
        return failed or tuple(exits)
    over = all(kernel.kernel_id in exits or kernel.status in _ABSENT for kernel in session.kernels)
    return failed or (tuple(exits) if over else ())


def ending(session: SessionRecord, exits: Mapping[KernelId, Exit]) -> tuple[SessionStep, ...]:
    """The steps by which kernels that have exited leave; none if the session goes on."""
    decisive = deciding(session, exits)
    if not decisive:
        return ()
    first = [kernel for kernel in session.kernels if kernel.kernel_id in decisive]
    rest = {kernel: one for kernel, one in exits.items() if kernel not in decisive}
    return _exited(first, exits, *_reason(first, exits)), *leaving(session, rest)


def leaving(session: SessionRecord, exits: Mapping[KernelId, Exit]) -> tuple[SessionStep, ...]:
    """The steps of kernels whose end decides nothing; it is told all the same."""
    here = [kernel for kernel in session.kernels if kernel.kernel_id in exits]
    full = _full(here, exits)
    others = [kernel for kernel in here if kernel not in full]
    return _exited(full, exits, OUT_OF_MEMORY, _said(full, exits)), _exited(others, exits, EXITED)


def _exited(
    kernels: Collection[KernelRecord], exits: Mapping[KernelId, Exit], code: str, detail: str = ""
) -> SessionStep:
    ids = tuple(kernel.kernel_id for kernel in kernels)
    return SessionStep(KernelTrigger.EXITED, by_report(code, detail), ids, {one: exits[one].code for one in ids})


def _reason(kernels: Sequence[KernelRecord], exits: Mapping[KernelId, Exit]) -> tuple[str, str]:
    bad = [kernel for kernel in kernels if exits[kernel.kernel_id].code != 0]
    if not bad:
        return COMPLETED, ""
    full = _full(bad, exits)
    # First those that ran out of memory: who worked with them has mostly failed because of that.
    said = _said([*full, *(kernel for kernel in bad if kernel not in full)], exits)
    return OUT_OF_MEMORY if full else FAILED, said


def _full(kernels: Sequence[KernelRecord], exits: Mapping[KernelId, Exit]) -> list[KernelRecord]:
    return [kernel for kernel in kernels if exits[kernel.kernel_id].reason == OUT_OF_MEMORY]


def _said(kernels: Sequence[KernelRecord], exits: Mapping[KernelId, Exit]) -> str:
    said = ", ".join(_end_of(kernel, exits[kernel.kernel_id]) for kernel in kernels[:_SAID_MAX])
    return said if len(kernels) <= _SAID_MAX else f"{said}, and {len(kernels) - _SAID_MAX} more"


def _end_of(kernel: KernelRecord, one: Exit) -> str:
    if one.reason == OUT_OF_MEMORY:
        limit = kernel.slots["mem"]  # none was set where it asked for none: then the whole machine was full
        told = f"kernel {kernel.index} ran out of memory"
        return f"{told}: its limit was {format_amount('mem', limit)}" if limit else told
    told = f"kernel {kernel.index} ended with code {one.code}"
    return f"{told} ({one.reason})" if one.reason else told
