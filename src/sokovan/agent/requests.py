"""Handles requests, which may be repeated, delayed or out of order.

Of a kernel whose end a manager has confirmed only the output is kept. It is no longer part
of the table of kernels, so that reports and events cost the same however many have ended;
the agent forgets it by itself, by number and by age.
"""

from __future__ import annotations

from itertools import islice, takewhile

from msgspec.structs import replace

from sokovan.agent.admission import (
    AdmissionRefusal,
    admission_refusal,
    slots_of,
    superseded_attempt,
    wrong_incarnation,
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
from sokovan.agent.messages import (
    AgentStep,
    CreateRequested,
    ForgetInstruction,
    ForgetRequested,
    PrepareInstruction,
    PrepareRequested,
    SendAnswer,
    SendProblem,
    StartInstruction,
    StopInstruction,
    StopRequested,
)
from sokovan.ports.agent_gateway import GoneProof, ImageState


def create(table: KernelTable, event: CreateRequested) -> AgentStep:
    """Start a kernel, at most once."""
    key = KernelKey.of(event.launch)
    refusal = wrong_incarnation(table, event.incarnation) or superseded_attempt(table, key)
    if refusal:
        return refused(table, event.token, refusal)
    kernel = table.kernels.get(key)
    if kernel is not None:
        return _create_again(table, event, key, kernel)
    refusal = admission_refusal(table, event.launch)
    if refusal:
        return refused(table, event.token, refusal)
    return _create_new(table, event, key)


def _create_again(table: KernelTable, event: CreateRequested, key: KernelKey, kernel: ManagedKernel) -> AgentStep:
    if kernel.stop_grace_s is not None:
        return refused(table, event.token, AdmissionRefusal("stopping", f"{key} is being stopped"))
    if kernel.phase is KernelPhase.UNSTARTED:  # the agent was killed between the record and the start
        again = replace(kernel, phase=KernelPhase.REQUESTED, settled=None, waiting=(event.token,))
        return AgentStep(with_kernel(table, key, again), instructions=(StartInstruction(event.launch),))
    if kernel.phase is KernelPhase.REQUESTED and kernel.settled is None:
        waiting = replace(kernel, waiting=(*kernel.waiting, event.token))
        return AgentStep(with_kernel(table, key, waiting))
    return AgentStep(table, instructions=(SendAnswer(event.token),))


def _create_new(table: KernelTable, event: CreateRequested, key: KernelKey) -> AgentStep:
    launch = event.launch
    devices = {slot: tuple(ids) for slot, ids in launch.devices.items()}
    record = KernelRequested(key, dict(launch.slots), devices, table.boot)
    kernel = ManagedKernel(slots=slots_of(launch), phase=KernelPhase.REQUESTED, devices=devices, waiting=(event.token,))
    if key not in table.orphans:
        return AgentStep(with_kernel(table, key, kernel), (record,), (StartInstruction(launch),))
    # It runs already, from an agent whose journal was lost: adopt it.
    orphans = {other: orphan for other, orphan in table.orphans.items() if other != key}
    adopted = replace(kernel, phase=KernelPhase.RUNNING, settled=table.tick, waiting=(), restored=True)
    taken_over = replace(with_kernel(table, key, adopted), orphans=orphans)
    return AgentStep(taken_over, (record,), (SendAnswer(event.token),))


def stop(table: KernelTable, event: StopRequested) -> AgentStep:
    """Stop a kernel; once it has ended, write a tombstone and confirm."""
    refusal = wrong_incarnation(table, event.incarnation)
    if refusal:
        return refused(table, event.token, refusal)
    if not table.observed:
        return refused(table, event.token, AdmissionRefusal("not-ready", "the agent has not observed its machine yet"))
    key, kernel = event.key, table.kernels.get(event.key)
    tombstone = table.tombstones.get(key)
    if tombstone is not None and key not in table.orphans:
        proof = GoneProof(gone=True, exit_code=tombstone.exit_code, by_itself=tombstone.by_itself)
        return AgentStep(table, instructions=(SendAnswer(event.token, proof),))
    if kernel is None:
        return _stop_unknown(table, event)
    if kernel.phase is KernelPhase.EXITED:
        return with_tombstone(table, event.token, key, kernel)
    if kernel.phase is KernelPhase.UNSTARTED:
        return with_tombstone(table, event.token, key, kernel, drop=True)
    stopping = with_kernel(table, key, replace(kernel, stop_grace_s=event.grace_s))
    answer = SendAnswer(event.token, GoneProof(gone=False, detail={"phase": kernel.phase, "reason": kernel.reason}))
    if kernel.phase is KernelPhase.REQUESTED and kernel.settled is None:  # stopped as soon as its start has finished
        return AgentStep(stopping, instructions=(answer,))
    return AgentStep(stopping, instructions=(StopInstruction(key, event.grace_s, event.notice), answer))


def _stop_unknown(table: KernelTable, event: StopRequested) -> AgentStep:
    if event.key in table.orphans:
        answer = SendAnswer(event.token, GoneProof(gone=False, detail={"phase": "unknown"}))
        return AgentStep(table, instructions=(StopInstruction(event.key, event.grace_s), answer))
    # Unknown: a create that arrives later finds the tombstone.
    tombstones = table.tombstones.adding(event.key, Tombstone(table.incarnation), listed=table)
    return AgentStep(
        replace(table, tombstones=tombstones),
        (KernelEntombed(event.key, table.incarnation),),
        (SendAnswer(event.token, GoneProof(gone=True)),),
    )


def with_tombstone(
    table: KernelTable, token: Token, key: KernelKey, kernel: ManagedKernel, *, drop: bool = False
) -> AgentStep:
    """Write a tombstone for an ended kernel and confirm its end.

    `drop` removes a kernel that never started.
    """
    by_itself = kernel.ended_by_itself
    records: list[JournalRecord] = [KernelEntombed(key, table.incarnation, kernel.exit_code, by_itself)]
    kernels = dict(table.kernels)
    if drop:
        records.append(KernelWithdrawn(key))
        del kernels[key]
    tombstone = Tombstone(table.incarnation, kernel.exit_code, by_itself)
    tombstones = table.tombstones.adding(key, tombstone, listed=table)
    detail = {"reason": kernel.reason} if kernel.reason else {}
    proof = GoneProof(
        gone=True, exit_code=kernel.exit_code, detail=detail, checkpoint=kernel.checkpoint, by_itself=by_itself
    )
    done = AgentStep(
        replace(table, kernels=kernels, tombstones=tombstones),
        tuple(records),
        (SendAnswer(token, proof),),
    )
    return with_kept(done, key)


def forget(table: KernelTable, event: ForgetRequested) -> AgentStep:
    """Remove what is kept of an ended kernel; does nothing for an unknown one."""
    refusal = wrong_incarnation(table, event.incarnation)
    if refusal:
        return refused(table, event.token, refusal)
    key, kernel = event.key, table.kernels.get(event.key)
    if kernel is None:
        known = (key,) if key in table.kept else ()
        return forgotten(AgentStep(table, instructions=(SendAnswer(event.token),)), *known)
    if kernel.phase not in {KernelPhase.EXITED, KernelPhase.UNSTARTED}:
        return refused(table, event.token, AdmissionRefusal("not-over", f"{key} has not ended: {kernel.phase}"))
    records: list[JournalRecord] = [KernelForgotten(key)]
    tombstones = table.tombstones
    if key not in tombstones:
        tombstone = Tombstone(table.incarnation, kernel.exit_code)
        tombstones = tombstones.adding(key, tombstone, listed=table)
        records.insert(0, KernelEntombed(key, table.incarnation, kernel.exit_code))
    kernels = {other: kept for other, kept in table.kernels.items() if other != key}
    return AgentStep(
        replace(table, kernels=kernels, tombstones=tombstones),
        tuple(records),
        (ForgetInstruction(key), SendAnswer(event.token)),
    )


def prepare(table: KernelTable, event: PrepareRequested) -> AgentStep:
    """Report the state of an image, and prepare it unless that is under way."""
    refusal = wrong_incarnation(table, event.incarnation)
    if refusal:
        return refused(table, event.token, refusal)
    report = table.images.get(event.image)
    if report is not None and report.state is ImageState.PULLING:
        return AgentStep(table, instructions=(SendAnswer(event.token, report),))
    before = table.image_waiting.get(event.image, ())
    waiting = {**table.image_waiting, event.image: (*before, event.token)}
    return AgentStep(
        replace(table, image_waiting=waiting),
        instructions=() if before else (PrepareInstruction(event.image),),
    )


def refused(table: KernelTable, token: Token, refusal: AdmissionRefusal) -> AgentStep:
    """Refuse a request; the table does not change."""
    return AgentStep(table, instructions=(SendProblem(token, refusal.code, refusal.message),))


def with_kernel(table: KernelTable, key: KernelKey, kernel: ManagedKernel) -> KernelTable:
    """The table with this kernel replaced."""
    return replace(table, kernels={**table.kernels, key: kernel})


def with_kept(step: AgentStep, *keys: KernelKey) -> AgentStep:
    """The step, and then keep those of these kernels whose end is confirmed.

    Managers of earlier releases do not say how long to keep them, and forget each.
    """
    table = step.table
    over = [key for key in keys if _is_over(table, key)] if table.keep is not None else []
    if not over:
        return step
    kernels = dict(table.kernels)
    for key in over:
        del kernels[key]
    table = replace(table, kernels=kernels, kept={**table.kept, **dict.fromkeys(over)})
    return _without_oldest(replace(step, table=table))


def aged(table: KernelTable, now_ms: int) -> AgentStep:
    """Forget kernels that were kept long enough; the age of new ones begins now."""
    if table.keep is None or not table.kept:
        return AgentStep(table)
    seconds = table.keep.seconds
    if None in table.kept.values():
        kept = {key: now_ms if since_ms is None else since_ms for key, since_ms in table.kept.items()}
        table = replace(table, kept=kept)
    # They are in the order of their age, and mostly none is old enough.
    limit_ms = now_ms - seconds * 1000
    old = takewhile(lambda one: one[1] is not None and one[1] <= limit_ms, table.kept.items())
    return forgotten(AgentStep(table), *[key for key, _ in old])


def forgotten(step: AgentStep, *keys: KernelKey) -> AgentStep:
    """The step, after which nothing is kept of these kernels."""
    if not keys:
        return step
    kept = dict(step.table.kept)  # copying all and removing a few is faster than choosing those that stay
    for key in keys:
        kept.pop(key, None)
    return AgentStep(
        replace(step.table, kept=kept),
        (*step.records, *map(KernelForgotten, keys)),
        (*step.instructions, *map(ForgetInstruction, keys)),
    )


def _is_over(table: KernelTable, key: KernelKey) -> bool:
    kernel = table.kernels.get(key)
    return kernel is not None and kernel.phase is KernelPhase.EXITED and key in table.tombstones


def _without_oldest(step: AgentStep) -> AgentStep:
    table = step.table
    excess = 0 if table.keep is None else len(table.kept) - table.keep.kernels_max
    return forgotten(step, *list(islice(table.kept, max(0, excess))))
