"""When the own end of kernels is the end of their session. Pure.

A session that goes on keeps its ended kernels as they are: what they hold is freed
together with the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

from sokovan.domain.ids import KernelId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.record import KernelRecord, SessionRecord
from sokovan.domain.session import EndPolicy
from sokovan.orchestrator.sessions.moves import Step, by_report

COMPLETED = "completed"
FAILED = "kernel-failed"
# Nobody waits for these: they have left, or never came. A gang that has worked with fewer does not begin anew.
_ABSENT = frozenset({KernelStatus.PENDING, KernelStatus.TERMINATING, KernelStatus.TERMINATED, KernelStatus.CANCELLED})


def deciding(session: SessionRecord, exits: Mapping[KernelId, int]) -> tuple[KernelId, ...]:
    """The kernels whose end is the session's; none if it goes on.

    `exits` are the exit codes of kernels that have ended by themselves. A failure ends
    the session, unless failures are tolerated; then it counts as an end like any other.
    """
    spec = session.spec
    failed = () if spec.tolerates_failures else tuple(kernel for kernel, code in exits.items() if code != 0)
    main = session.kernels[0].kernel_id
    if spec.ends_with is EndPolicy.MAIN:
        return failed or ((main,) if main in exits else ())
    if spec.ends_with is EndPolicy.ANY:
        return failed or tuple(exits)
    over = all(kernel.kernel_id in exits or kernel.status in _ABSENT for kernel in session.kernels)
    return failed or (tuple(exits) if over else ())


def ending(session: SessionRecord, exits: Mapping[KernelId, int]) -> tuple[Step, ...]:
    """The steps by which kernels that have exited leave; none if the session goes on."""
    decisive = deciding(session, exits)
    if not decisive:
        return ()
    first = [kernel for kernel in session.kernels if kernel.kernel_id in decisive]
    change = by_report(*_reason(first, exits))
    rest = tuple(kernel for kernel in exits if kernel not in decisive)
    return (
        Step(KernelTrigger.EXITED, change, decisive, exits),
        Step(KernelTrigger.EXITED, by_report("kernel-exited"), rest, exits),
    )


def _reason(kernels: list[KernelRecord], exits: Mapping[KernelId, int]) -> tuple[str, str]:
    bad = [kernel for kernel in kernels if exits[kernel.kernel_id] != 0]
    if not bad:
        return COMPLETED, ""
    said = ", ".join(f"kernel {kernel.index} ended with code {exits[kernel.kernel_id]}" for kernel in bad[:5])
    return FAILED, said if len(bad) <= 5 else f"{said}, and {len(bad) - 5} more"
