"""What an agent does with a request, which may come twice, late, or out of turn."""

from __future__ import annotations

from dataclasses import replace

from sokovan.agent.admission import AdmissionRefusal, not_admitted, outlived, wrong_incarnation
from sokovan.agent.instructions import (
    AgentStep,
    ForgetInstruction,
    PrepareInstruction,
    SendAnswer,
    SendProblem,
    StartInstruction,
    StopInstruction,
)
from sokovan.agent.journal_records import (
    JournalRecord,
    KernelEntombed,
    KernelForgotten,
    KernelKey,
    KernelRequested,
    KernelWithdrawn,
    Tombstone,
)
from sokovan.agent.kernel_table import KernelPhase, KernelTable, ManagedKernel, Token
from sokovan.agent.messages import CreateRequested, ForgetRequested, PrepareRequested, StopRequested
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.agent_gateway import GoneProof, ImageState


def create(holdings: KernelTable, event: CreateRequested) -> AgentStep:
    """Start a kernel, once."""
    key = KernelKey.of(event.launch)
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


def _create_again(holdings: KernelTable, event: CreateRequested, key: KernelKey, held: ManagedKernel) -> AgentStep:
    if held.stop_grace_s is not None:
        return refused(holdings, event.token, AdmissionRefusal("stopping", f"{key} is being stopped"))
    if held.phase is KernelPhase.UNSTARTED:  # it was written down, and the agent died before it began
        again = replace(held, phase=KernelPhase.ASKED, settled=None, waiting=(event.token,))
        return AgentStep(with_kernel(holdings, key, again), instructions=(StartInstruction(event.launch),))
    if held.phase is KernelPhase.ASKED and held.settled is None:
        waiting = replace(held, waiting=(*held.waiting, event.token))
        return AgentStep(with_kernel(holdings, key, waiting))
    return AgentStep(holdings, instructions=(SendAnswer(event.token),))


def _create_new(holdings: KernelTable, event: CreateRequested, key: KernelKey) -> AgentStep:
    launch = event.launch
    devices = {slot: tuple(ids) for slot, ids in launch.devices.items()}
    record = KernelRequested(key, dict(launch.slots), devices, holdings.boot)
    held = ManagedKernel(
        slots=ResourceSlot(launch.slots), phase=KernelPhase.ASKED, devices=devices, waiting=(event.token,)
    )
    if key not in holdings.strangers:
        return AgentStep(with_kernel(holdings, key, held), (record,), (StartInstruction(launch),))
    # It runs already, for an agent whose journal was lost: now somebody answers for it.
    strangers = {other: stranger for other, stranger in holdings.strangers.items() if other != key}
    adopted = replace(held, phase=KernelPhase.RUNNING, settled=holdings.tick, waiting=())
    taken_over = replace(with_kernel(holdings, key, adopted), strangers=strangers)
    return AgentStep(taken_over, (record,), (SendAnswer(event.token),))


def stop(holdings: KernelTable, event: StopRequested) -> AgentStep:
    """End a kernel, and promise that it is over once it is."""
    refusal = wrong_incarnation(holdings, event.incarnation)
    if refusal:
        return refused(holdings, event.token, refusal)
    if not holdings.seen:
        return refused(
            holdings, event.token, AdmissionRefusal("not-ready", "the agent has not looked at its machine yet")
        )
    key, held = event.key, holdings.kernels.get(event.key)
    tombstone = holdings.tombstones.get(key)
    if tombstone is not None and key not in holdings.strangers:
        return AgentStep(
            holdings, instructions=(SendAnswer(event.token, GoneProof(gone=True, exit_code=tombstone.exit_code)),)
        )
    if held is None:
        return _stop_unknown(holdings, event)
    if held.phase is KernelPhase.EXITED:
        return entombed(holdings, event.token, key, held)
    if held.phase is KernelPhase.UNSTARTED:
        return entombed(holdings, event.token, key, held, drop=True)
    asked = with_kernel(holdings, key, replace(held, stop_grace_s=event.grace_s))
    answer = SendAnswer(event.token, GoneProof(gone=False, detail={"phase": held.phase, "reason": held.reason}))
    if held.phase is KernelPhase.ASKED and held.settled is None:  # stopped as soon as its start is over
        return AgentStep(asked, instructions=(answer,))
    return AgentStep(asked, instructions=(StopInstruction(key, event.grace_s), answer))


def _stop_unknown(holdings: KernelTable, event: StopRequested) -> AgentStep:
    if event.key in holdings.strangers:
        answer = SendAnswer(event.token, GoneProof(gone=False, detail={"phase": "unknown"}))
        return AgentStep(holdings, instructions=(StopInstruction(event.key, event.grace_s), answer))
    # Never heard of: the create that comes too late will find the tombstone.
    tombstones = holdings.tombstones.laid(event.key, Tombstone(holdings.incarnation), held=holdings.kernels)
    return AgentStep(
        replace(holdings, tombstones=tombstones),
        (KernelEntombed(event.key, holdings.incarnation),),
        (SendAnswer(event.token, GoneProof(gone=True)),),
    )


def entombed(
    holdings: KernelTable, token: Token, key: KernelKey, held: ManagedKernel, *, drop: bool = False
) -> AgentStep:
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
    return AgentStep(
        replace(holdings, kernels=kernels, tombstones=tombstones),
        tuple(records),
        (SendAnswer(token, GoneProof(gone=True, exit_code=held.exit_code, detail=detail)),),
    )


def forget(holdings: KernelTable, event: ForgetRequested) -> AgentStep:
    """Remove what is kept of an ended kernel; an unknown one is forgotten already."""
    refusal = wrong_incarnation(holdings, event.incarnation)
    if refusal:
        return refused(holdings, event.token, refusal)
    key, held = event.key, holdings.kernels.get(event.key)
    if held is None:
        return AgentStep(holdings, instructions=(SendAnswer(event.token),))
    if held.phase not in {KernelPhase.EXITED, KernelPhase.UNSTARTED}:
        return refused(holdings, event.token, AdmissionRefusal("not-over", f"{key} is not over: {held.phase}"))
    records: list[JournalRecord] = [KernelForgotten(key)]
    tombstones = holdings.tombstones
    if key not in tombstones:
        tombstone = Tombstone(holdings.incarnation, held.exit_code)
        tombstones = tombstones.laid(key, tombstone, held=holdings.kernels)
        records.insert(0, KernelEntombed(key, holdings.incarnation, held.exit_code))
    kernels = {other: kept for other, kept in holdings.kernels.items() if other != key}
    return AgentStep(
        replace(holdings, kernels=kernels, tombstones=tombstones),
        tuple(records),
        (ForgetInstruction(key), SendAnswer(event.token)),
    )


def prepare(holdings: KernelTable, event: PrepareRequested) -> AgentStep:
    """Say how far an image is, and see to it that it gets further."""
    refusal = wrong_incarnation(holdings, event.incarnation)
    if refusal:
        return refused(holdings, event.token, refusal)
    report = holdings.images.get(event.image)
    if report is not None and report.state is ImageState.PULLING:
        return AgentStep(holdings, instructions=(SendAnswer(event.token, report),))
    before = holdings.image_waiting.get(event.image, ())
    waiting = {**holdings.image_waiting, event.image: (*before, event.token)}
    return AgentStep(
        replace(holdings, image_waiting=waiting),
        instructions=() if before else (PrepareInstruction(event.image),),
    )


def refused(holdings: KernelTable, token: Token, refusal: AdmissionRefusal) -> AgentStep:
    """Nothing changes, and the manager hears why."""
    return AgentStep(holdings, instructions=(SendProblem(token, refusal.code, refusal.message),))


def with_kernel(holdings: KernelTable, key: KernelKey, held: ManagedKernel) -> KernelTable:
    """The holdings with this kernel as it is now."""
    return replace(holdings, kernels={**holdings.kernels, key: held})
