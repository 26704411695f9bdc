"""Suggests changes to a pending session's request, to be tried as dry runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.domain.slot_notation import format_slots
from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.trace import Code, Verdict

# Each suggestion costs a scheduling cycle.
TRIED_MAX = 3
# Codes for which another request can help; a limit or a queue needs time.
_ROOM = frozenset(
    {
        Code.NOT_ENOUGH_FREE,
        Code.FRAGMENTED,
        Code.NEVER_FITS,
        Code.TOPOLOGY_NO_ROOM,
        Code.TOPOLOGY_IMPOSSIBLE,
        Code.RESERVED_FOR_GANG,
        Code.NO_LABEL_MATCH,
        Code.AFFINITY,
    }
)
# Suggested amounts are rounded down to these units; every kernel needs some of these slots.
_GRAIN = {"cpu": 1000, "mem": 1 << 20}


class Suggestion(NamedTuple):
    """A change, as the continuation of "it would start", and the changed session."""

    change: str
    session: SessionWorkload


def suggestions(session: SessionWorkload, verdict: Verdict) -> list[Suggestion]:
    """The changes to try for a session with this verdict, the smallest first."""
    if verdict.code is Code.HELD:
        return [Suggestion("once it is released", replace(session, gates=()))]
    short = any(check.name == "room" and check.result == "short" for check in verdict.checks)
    if verdict.code not in _ROOM and not (verdict.code is Code.QUEUE_OVER_SHARE and short):
        return []
    return list(islice(_changes(session, verdict), TRIED_MAX))


def _changes(session: SessionWorkload, verdict: Verdict) -> Iterator[Suggestion]:
    topology = session.topology
    if topology is not None and topology.mode is TopologyMode.HARD:
        soft = TopologyConstraint(TopologyMode.SOFT, topology.highest_tier)
        tier = "" if topology.highest_tier is None else f":{topology.highest_tier}"
        yield Suggestion(f"with --topology soft{tier}", replace(session, topology=soft))
    if verdict.code is Code.NO_LABEL_MATCH and any(kernel.require for kernel in session.kernels):
        yield Suggestion("without --require", _with_kernels(session, require={}))
    if verdict.code is Code.AFFINITY:
        yield from _without_affinity(session)
    if verdict.shortfall:
        yield from _smaller(session, verdict.shortfall)
    yield from _fewer(session, verdict)


def _without_affinity(session: SessionWorkload) -> Iterator[Suggestion]:
    constraints = session.kernels[0].constraints  # those of the session
    if constraints is None:
        return
    if constraints.affinity:
        yield Suggestion("without --affinity", _with_kernels(session, constraints=replace(constraints, affinity=())))
    if constraints.anti_affinity:
        free = replace(constraints, anti_affinity=())
        yield Suggestion("without --anti-affinity", _with_kernels(session, constraints=free))


def _smaller(session: SessionWorkload, shortfall: ResourceSlot) -> Iterator[Suggestion]:
    """Smaller kernels that fit the agent with the smallest shortfall."""
    most = {slot: max(kernel.slots[slot] for kernel in session.kernels) for slot in shortfall}
    caps = {slot: _rounded(slot, most[slot] - missing) for slot, missing in shortfall.items()}
    if any(cap < 0 or (not cap and slot in _GRAIN) for slot, cap in caps.items()):
        return
    kernels = tuple(
        replace(kernel, slots=ResourceSlot({slot: min(n, caps.get(slot, n)) for slot, n in kernel.slots.items()}))
        for kernel in session.kernels
    )
    kept = format_slots(ResourceSlot({slot: cap for slot, cap in caps.items() if cap}))
    gone = [f"without {_option(slot)}" for slot, cap in caps.items() if not cap]
    text = ", ".join([f"with {kept} for each kernel"] * bool(kept) + gone)
    yield Suggestion(text, replace(session, kernels=kernels))


def _fewer(session: SessionWorkload, verdict: Verdict) -> Iterator[Suggestion]:
    """A lower minimum: as many kernels as fit now, or one less."""
    if session.gang_size < 2:
        return
    fit = verdict.kernels_fit
    fewer = fit if 0 < fit < session.gang_size else session.gang_size - 1
    minimums = {name: min(least, 1) for name, least in session.group_minimums.items()}
    change = replace(session, min_kernels=fewer, group_minimums=minimums)
    yield Suggestion(f"with --minimum {fewer}: {fewer} of {len(session.kernels)} kernels", change)


def _with_kernels(session: SessionWorkload, **changes: Any) -> SessionWorkload:
    return replace(session, kernels=tuple(replace(kernel, **changes) for kernel in session.kernels))


def _option(slot: str) -> str:
    """The command-line option of a slot."""
    return "--gpus" if slot == "cuda.device" else f"--slot {slot}"


def _rounded(slot: str, amount: int) -> int:
    grain = _GRAIN.get(slot, 1)
    return amount - amount % grain if amount >= grain else amount
