"""The judgement of an agent: what has happened, and what follows. Pure.

`step(holdings, event)` neither waits nor touches anything. What must outlive the
agent is in the records of a step, which are durable before the rest is carried out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from sokovan.agent import requests
from sokovan.agent.instructions import AgentStep, Instruction, SendAnswer, SendHeartbeat, SendProblem, StopInstruction
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
    CreateRequested,
    Event,
    ForgetRequested,
    ImageProgressed,
    LinkClosed,
    LinkOpened,
    Observed,
    ObstacleObserved,
    PrepareRequested,
    StartFinished,
    StopRequested,
)
from sokovan.agent.observations import looked

# As many images as are reported; the ones that moved last.
IMAGES_MAX = 256


def step(holdings: KernelTable, event: Event) -> AgentStep:
    """What follows from an event; a change of what runs is told at once."""
    at = replace(holdings, tick=holdings.tick + 1)
    done = _decided(at, event)
    if SendHeartbeat() not in done.instructions and _tells_news(holdings, done.holdings):
        done = replace(done, instructions=(*done.instructions, SendHeartbeat()))
    return done


def _decided(holdings: KernelTable, event: Event) -> AgentStep:  # noqa: PLR0911  # a table: one line for each event
    match event:
        case CreateRequested():
            return requests.create(holdings, event)
        case StopRequested():
            return requests.stop(holdings, event)
        case ForgetRequested():
            return requests.forget(holdings, event)
        case PrepareRequested():
            return requests.prepare(holdings, event)
        case StartFinished():
            return _start_finished(holdings, event)
        case Observed():
            return looked(holdings, event)
        case ImageProgressed():
            return _image_moved(holdings, event)
        case ObstacleObserved():
            return AgentStep(replace(holdings, obstacle=event.obstacle))
        case LinkOpened():
            return _link_opened(holdings, event)
        case LinkClosed():
            return _link_closed(holdings, event)
    assert_never(event)


def _tells_news(before: KernelTable, after: KernelTable) -> bool:
    if {image: report.state for image, report in before.images.items()} != {
        image: report.state for image, report in after.images.items()
    }:
        return True
    return not same_reports(before, after)


def _start_finished(holdings: KernelTable, event: StartFinished) -> AgentStep:
    held = holdings.kernels.get(event.key)
    if held is None:
        return AgentStep(holdings)
    if event.problem and event.certain and held.phase is KernelPhase.ASKED:
        return _not_started(holdings, event, held)
    answers: tuple[Instruction, ...] = tuple(
        SendProblem(token, event.code, event.problem) if event.problem else SendAnswer(token) for token in held.waiting
    )
    certain = not event.problem
    records: tuple[JournalRecord, ...] = (KernelStarted(event.key),) if certain and not held.started else ()
    settled = replace(held, settled=holdings.tick, started=held.started or certain, waiting=())
    stop: tuple[Instruction, ...] = ()
    if held.stop_grace_s is not None and held.phase is not KernelPhase.EXITED:
        stop = (StopInstruction(event.key, held.stop_grace_s),)
    return AgentStep(requests.with_kernel(holdings, event.key, settled), records, (*stop, *answers))


def _not_started(holdings: KernelTable, event: StartFinished, held: ManagedKernel) -> AgentStep:
    """Nothing of it runs: it may be tried again, unless its end was asked for."""
    kernels = {key: kept for key, kept in holdings.kernels.items() if key != event.key}
    records: list[JournalRecord] = [KernelWithdrawn(event.key)]
    tombstones = holdings.tombstones
    if held.stop_grace_s is not None:
        records.append(KernelEntombed(event.key, holdings.incarnation))
        tombstones = tombstones.laid(event.key, Tombstone(holdings.incarnation), held=kernels)
    problems = tuple(SendProblem(token, event.code, event.problem) for token in held.waiting)
    return AgentStep(replace(holdings, kernels=kernels, tombstones=tombstones), tuple(records), problems)


def _image_moved(holdings: KernelTable, event: ImageProgressed) -> AgentStep:
    report = event.report
    others = {image: known for image, known in holdings.images.items() if image != report.image}
    images = dict(list({**others, report.image: report}.items())[-IMAGES_MAX:])
    waiting = {image: tokens for image, tokens in holdings.image_waiting.items() if image != report.image}
    answers = tuple(SendAnswer(token, report) for token in holdings.image_waiting.get(report.image, ()))
    return AgentStep(replace(holdings, images=images, image_waiting=waiting), instructions=answers)


def _link_opened(holdings: KernelTable, event: LinkOpened) -> AgentStep:
    if event.incarnation <= holdings.incarnation:  # the same again, or the word of a manager that lags behind
        return AgentStep(holdings, instructions=(SendHeartbeat(),))
    tombstones = holdings.tombstones.standing(incarnation=event.incarnation, held=holdings.kernels)
    return AgentStep(
        replace(holdings, incarnation=event.incarnation, tombstones=tombstones),
        (IncarnationTaken(event.incarnation),),
        (SendHeartbeat(),),
    )


def _link_closed(holdings: KernelTable, event: LinkClosed) -> AgentStep:
    kernels = {
        key: replace(held, waiting=_elsewhere(held.waiting, event.link)) if held.waiting else held
        for key, held in holdings.kernels.items()
    }
    image_waiting = {image: _elsewhere(tokens, event.link) for image, tokens in holdings.image_waiting.items()}
    return AgentStep(replace(holdings, kernels=kernels, image_waiting=image_waiting))


def _elsewhere(tokens: tuple[Token, ...], link: int) -> tuple[Token, ...]:
    return tuple(token for token in tokens if token.link != link)
