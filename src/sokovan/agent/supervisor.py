"""The agent's state machine: applies an event to the kernel table. Pure.

`step(table, event)` has no side effects. State that must survive a restart is in the
records of a step, which are durable before its instructions run.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from sokovan.agent import requests
from sokovan.agent.journal_records import (
    IncarnationTaken,
    JournalRecord,
    KernelEntombed,
    KernelStarted,
    KernelWithdrawn,
    Tombstone,
)
from sokovan.agent.kernel_table import KernelPhase, KernelTable, ManagedKernel, Token, same_reports
from sokovan.agent.messages import (
    AgentStep,
    CreateRequested,
    DevicesChecked,
    Event,
    ForgetRequested,
    ImageProgressed,
    Instruction,
    LinkClosed,
    LinkOpened,
    Observed,
    ObstacleObserved,
    PrepareRequested,
    RemainsEnded,
    SendAnswer,
    SendHeartbeat,
    SendProblem,
    StartFinished,
    StopInstruction,
    StopRequested,
)
from sokovan.agent.observations import reconciled
from sokovan.ports.runtime import KILLED

FILES_REMOVED = "its files were removed while it ran"
# Reported images are limited to the most recent ones.
IMAGES_MAX = 256


def step(table: KernelTable, event: Event) -> AgentStep:
    """Apply an event; a change of the kernel reports requests a heartbeat."""
    at = replace(table, tick=table.tick + 1)
    done = _apply(at, event)
    if _changes_reports(table, done.table) and SendHeartbeat() not in done.instructions:
        done = replace(done, instructions=(*done.instructions, SendHeartbeat()))
    return done


def _apply(table: KernelTable, event: Event) -> AgentStep:  # noqa: PLR0911  # one return per event
    match event:
        case CreateRequested():
            return requests.create(table, event)
        case StopRequested():
            return requests.stop(table, event)
        case ForgetRequested():
            return requests.forget(table, event)
        case PrepareRequested():
            return requests.prepare(table, event)
        case StartFinished():
            return _start_finished(table, event)
        case RemainsEnded():
            return _remains_ended(table, event)
        case Observed():
            return reconciled(table, event)
        case ImageProgressed():
            return _image_progressed(table, event)
        case ObstacleObserved() | DevicesChecked():
            return _machine_changed(table, event)
        case LinkOpened():
            return _link_opened(table, event)
        case LinkClosed():
            return _link_closed(table, event)
    assert_never(event)


def _machine_changed(table: KernelTable, event: ObstacleObserved | DevicesChecked) -> AgentStep:
    if isinstance(event, DevicesChecked):
        return AgentStep(replace(table, device_faults=event.faults))
    return AgentStep(replace(table, obstacle=event.obstacle))


def _changes_reports(before: KernelTable, after: KernelTable) -> bool:
    if before.images is not after.images and {image: report.state for image, report in before.images.items()} != {
        image: report.state for image, report in after.images.items()
    }:
        return True
    return before.device_faults != after.device_faults or not same_reports(before, after)


def _start_finished(table: KernelTable, event: StartFinished) -> AgentStep:
    kernel = table.kernels.get(event.key)
    if kernel is None:
        return AgentStep(table)
    if event.problem and event.certain and kernel.phase is KernelPhase.REQUESTED:
        return _not_started(table, event, kernel)
    answers: tuple[Instruction, ...] = tuple(
        SendProblem(token, event.code, event.problem) if event.problem else SendAnswer(token)
        for token in kernel.waiting
    )
    certain = not event.problem
    records: tuple[JournalRecord, ...] = ()
    if certain and not kernel.started:
        records = (KernelStarted(event.key, event.traces),)
        kernel = replace(kernel, started=True, traces=event.traces)
    if certain and event.traces and kernel.phase is KernelPhase.REQUESTED:
        # It has processes: the report of that does not wait for the next observation.
        kernel = replace(kernel, phase=KernelPhase.RUNNING)
    settled = replace(kernel, settled=table.tick, waiting=())
    stop: tuple[Instruction, ...] = ()
    if kernel.stop_grace_s is not None and kernel.phase is not KernelPhase.EXITED:
        stop = (StopInstruction(event.key, kernel.stop_grace_s),)
    return AgentStep(requests.with_kernel(table, event.key, settled), records, (*stop, *answers))


def _not_started(table: KernelTable, event: StartFinished, kernel: ManagedKernel) -> AgentStep:
    """Nothing of it runs: it may be retried, unless a stop was requested."""
    kernels = {key: kept for key, kept in table.kernels.items() if key != event.key}
    records: list[JournalRecord] = [KernelWithdrawn(event.key)]
    tombstones = table.tombstones
    if kernel.stop_grace_s is not None:
        records.append(KernelEntombed(event.key, table.incarnation))
        tombstones = tombstones.adding(event.key, Tombstone(table.incarnation), listed=table)
    problems = tuple(SendProblem(token, event.code, event.problem) for token in kernel.waiting)
    return AgentStep(replace(table, kernels=kernels, tombstones=tombstones), tuple(records), problems)


def _remains_ended(table: KernelTable, event: RemainsEnded) -> AgentStep:
    """A vanished kernel has ended once nothing of it is left; otherwise it is tried again."""
    kernel = table.kernels.get(event.key)
    if kernel is None:
        return AgentStep(table)
    ended = replace(kernel, ending=False)
    if kernel.phase is KernelPhase.VANISHED:
        phase = KernelPhase.VANISHED if event.left else KernelPhase.EXITED
        ended = replace(
            ended, phase=phase, exit_code=None if event.left else KILLED, reason=event.left or FILES_REMOVED
        )
    return AgentStep(requests.with_kernel(table, event.key, ended))


def _image_progressed(table: KernelTable, event: ImageProgressed) -> AgentStep:
    report = event.report
    others = {image: known for image, known in table.images.items() if image != report.image}
    images = dict(list({**others, report.image: report}.items())[-IMAGES_MAX:])
    waiting = {image: tokens for image, tokens in table.image_waiting.items() if image != report.image}
    answers = tuple(SendAnswer(token, report) for token in table.image_waiting.get(report.image, ()))
    return AgentStep(replace(table, images=images, image_waiting=waiting), instructions=answers)


def _link_opened(table: KernelTable, event: LinkOpened) -> AgentStep:
    table = replace(table, keep=event.keep)
    if event.incarnation <= table.incarnation:  # a reconnect, or a manager that lags behind
        return AgentStep(table, instructions=(SendHeartbeat(),))
    tombstones = table.tombstones.retained(incarnation=event.incarnation, listed=table)
    return AgentStep(
        replace(table, incarnation=event.incarnation, tombstones=tombstones),
        (IncarnationTaken(event.incarnation),),
        (SendHeartbeat(),),
    )


def _link_closed(table: KernelTable, event: LinkClosed) -> AgentStep:
    kernels = {
        key: replace(kernel, waiting=_on_other_links(kernel.waiting, event.link)) if kernel.waiting else kernel
        for key, kernel in table.kernels.items()
    }
    image_waiting = {image: _on_other_links(tokens, event.link) for image, tokens in table.image_waiting.items()}
    return AgentStep(replace(table, kernels=kernels, image_waiting=image_waiting))


def _on_other_links(tokens: tuple[Token, ...], link: int) -> tuple[Token, ...]:
    return tuple(token for token in tokens if token.link != link)
