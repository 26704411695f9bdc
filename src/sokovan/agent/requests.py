"""What an agent does with a request, which may come twice, late, or out of turn."""

from __future__ import annotations

from dataclasses import replace

from sokovan.agent.admission import Refusal, not_admitted, outlived, wrong_incarnation
from sokovan.agent.instructions import (
    ForgetKernel,
    PrepareImage,
    SendAnswer,
    SendProblem,
    StartKernel,
    Step,
    StopKernel,
)
from sokovan.agent.journal.records import (
    JournalRecord,
    KernelAsked,
    KernelEntombed,
    KernelForgotten,
    KernelKey,
    KernelWithdrawn,
    Tombstone,
)
from sokovan.agent.kernel_table import Held, Holdings, Phase, Token
from sokovan.agent.messages import CreateAsked, ForgetAsked, PrepareAsked, StopAsked
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.agent_gateway import Gone, ImageState


def create(holdings: Holdings, event: CreateAsked) -> Step:
    """Start a kernel, once."""
    key = KernelKey(event.launch.kernel_id, event.launch.attempt)
    refusal = wrong_incarnation(holdings, event.incarnation) or outlived(holdings, key)
    if refusal:
        return refused(holdings, event.token, refusal)
    held = holdings.kernels.get(key)
    if held is not None:
        return _create_again(holdings, event, key, held)
    refusal = not_admitted(holdings, event.launch)
    if refusal:
        return refused(holdings, event.token, refusal)
    return _create_new(holdings, event, key)


def _create_again(holdings: Holdings, event: CreateAsked, key: KernelKey, held: Held) -> Step:
    if held.stop_grace_s is not None:
        return refused(holdings, event.token, Refusal("stopping", f"{key} is being stopped"))
    if held.phase is Phase.UNSTARTED:  # it was written down, and the agent died before it began
        again = replace(held, phase=Phase.ASKED, settled=None, waiting=(event.token,))
        return Step(with_kernel(holdings, key, again), instructions=(StartKernel(event.launch),))
    if held.phase is Phase.ASKED and held.settled is None:
        waiting = replace(held, waiting=(*held.waiting, event.token))
        return Step(with_kernel(holdings, key, waiting))
    return Step(holdings, instructions=(SendAnswer(event.token),))


def _create_new(holdings: Holdings, event: CreateAsked, key: KernelKey) -> Step:
    launch = event.launch
    devices = {slot: tuple(ids) for slot, ids in launch.devices.items()}
    record = KernelAsked(key, dict(launch.slots), devices, holdings.boot)
    held = Held(slots=ResourceSlot(launch.slots), phase=Phase.ASKED, devices=devices, waiting=(event.token,))
    if key not in holdings.strangers:
        return Step(with_kernel(holdings, key, held), (record,), (StartKernel(launch),))
    # It runs already, for an agent whose journal was lost: now somebody answers for it.
    strangers = {other: stranger for other, stranger in holdings.strangers.items() if other != key}
    adopted = replace(held, phase=Phase.RUNNING, settled=holdings.tick, waiting=())
    taken_over = replace(with_kernel(holdings, key, adopted), strangers=strangers)
    return Step(taken_over, (record,), (SendAnswer(event.token),))


def stop(holdings: Holdings, event: StopAsked) -> Step:
    """End a kernel, and promise that it is over once it is."""
    refusal = wrong_incarnation(holdings, event.incarnation)
    if refusal:
        return refused(holdings, event.token, refusal)
    if not holdings.seen:
        return refused(holdings, event.token, Refusal("not-ready", "the agent has not looked at its machine yet"))
    key, held = event.key, holdings.kernels.get(event.key)
    tombstone = holdings.tombstones.get(key)
    if tombstone is not None and key not in holdings.strangers:
        return Step(holdings, instructions=(SendAnswer(event.token, Gone(gone=True, exit_code=tombstone.exit_code)),))
    if held is None:
        return _stop_unknown(holdings, event)
    if held.phase is Phase.EXITED:
        return entombed(holdings, event.token, key, held)
    if held.phase is Phase.UNSTARTED:
        return entombed(holdings, event.token, key, held, drop=True)
    asked = with_kernel(holdings, key, replace(held, stop_grace_s=event.grace_s))
    answer = SendAnswer(event.token, Gone(gone=False, detail={"phase": held.phase, "reason": held.reason}))
    if held.phase is Phase.ASKED and held.settled is None:  # stopped as soon as its start is over
        return Step(asked, instructions=(answer,))
    return Step(asked, instructions=(StopKernel(key, event.grace_s), answer))


def _stop_unknown(holdings: Holdings, event: StopAsked) -> Step:
    if event.key in holdings.strangers:
        answer = SendAnswer(event.token, Gone(gone=False, detail={"phase": "unknown"}))
        return Step(holdings, instructions=(StopKernel(event.key, event.grace_s), answer))
    # Never heard of: the create that comes too late will find the tombstone.
    tombstones = holdings.tombstones.laid(event.key, Tombstone(holdings.incarnation), held=holdings.kernels)
    return Step(
        replace(holdings, tombstones=tombstones),
        (KernelEntombed(event.key, holdings.incarnation),),
        (SendAnswer(event.token, Gone(gone=True)),),
    )


def entombed(holdings: Holdings, token: Token, key: KernelKey, held: Held, *, drop: bool = False) -> Step:
    """The kernel is over for good, and the manager hears it.

    `drop` what never began: nothing is kept of it.
    """
    records: list[JournalRecord] = [KernelEntombed(key, holdings.incarnation, held.exit_code)]
    kernels = dict(holdings.kernels)
    if drop:
        records.append(KernelWithdrawn(key))
        del kernels[key]
    tombstone = Tombstone(holdings.incarnation, held.exit_code)
    tombstones = holdings.tombstones.laid(key, tombstone, held=holdings.kernels)
    detail = {"reason": held.reason} if held.reason else {}
    return Step(
        replace(holdings, kernels=kernels, tombstones=tombstones),
        tuple(records),
        (SendAnswer(token, Gone(gone=True, exit_code=held.exit_code, detail=detail)),),
    )


def forget(holdings: Holdings, event: ForgetAsked) -> Step:
    """Remove what is kept of an ended kernel; an unknown one is forgotten already."""
    refusal = wrong_incarnation(holdings, event.incarnation)
    if refusal:
        return refused(holdings, event.token, refusal)
    key, held = event.key, holdings.kernels.get(event.key)
    if held is None:
        return Step(holdings, instructions=(SendAnswer(event.token),))
    if held.phase not in {Phase.EXITED, Phase.UNSTARTED}:
        return refused(holdings, event.token, Refusal("not-over", f"{key} is not over: {held.phase}"))
    records: list[JournalRecord] = [KernelForgotten(key)]
    tombstones = holdings.tombstones
    if key not in tombstones:
        tombstone = Tombstone(holdings.incarnation, held.exit_code)
        tombstones = tombstones.laid(key, tombstone, held=holdings.kernels)
        records.insert(0, KernelEntombed(key, holdings.incarnation, held.exit_code))
    kernels = {other: kept for other, kept in holdings.kernels.items() if other != key}
    return Step(
        replace(holdings, kernels=kernels, tombstones=tombstones),
        tuple(records),
        (ForgetKernel(key), SendAnswer(event.token)),
    )


def prepare(holdings: Holdings, event: PrepareAsked) -> Step:
    """Say how far an image is, and see to it that it gets further."""
    refusal = wrong_incarnation(holdings, event.incarnation)
    if refusal:
        return refused(holdings, event.token, refusal)
    report = holdings.images.get(event.image)
    if report is not None and report.state is ImageState.PULLING:
        return Step(holdings, instructions=(SendAnswer(event.token, report),))
    before = holdings.image_waiting.get(event.image, ())
    waiting = {**holdings.image_waiting, event.image: (*before, event.token)}
    return Step(
        replace(holdings, image_waiting=waiting),
        instructions=() if before else (PrepareImage(event.image),),
    )


def refused(holdings: Holdings, token: Token, refusal: Refusal) -> Step:
    """Nothing changes, and the manager hears why."""
    return Step(holdings, instructions=(SendProblem(token, refusal.code, refusal.message),))


def with_kernel(holdings: Holdings, key: KernelKey, held: Held) -> Holdings:
    """The holdings with this kernel as it is now."""
    return replace(holdings, kernels={**holdings.kernels, key: held})
