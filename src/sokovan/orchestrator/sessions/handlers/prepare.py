"""Sees to it that agents have the images of the kernels they will run."""

from __future__ import annotations

from collections.abc import Iterator

from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.image_reports import ImageReports
from sokovan.orchestrator.request_backoff import AgentRequestKey
from sokovan.orchestrator.sessions.context import Cycle, HandlerContext
from sokovan.orchestrator.sessions.handlers.start import creation_step
from sokovan.orchestrator.sessions.session_cache import Need
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_coordinator, by_report
from sokovan.ports.agent_gateway import AgentRefused, ImageReport, ImageState

PREPARE = "prepare"
IMAGE_UNAVAILABLE = "image-unavailable"
PULLING = "pulling"
# An agent tells of a pull by itself; this is for the case that it was not heard.
_ASK_AGAIN_S = 10.0
# New words of a pull are worth a write once in a while; the same words, rarely.
_NOTE_NEW_MS = 1_000
_NOTE_EVERY_MS = 5_000
_STEPS = {KernelStatus.SCHEDULED, KernelStatus.PREPARING, KernelStatus.PULLING}


class PrepareImages:
    """Moves kernels up to PREPARED, and on to CREATING where all is ready."""

    name = "prepare"

    def __init__(self, bench: HandlerContext, images: ImageReports) -> None:
        self._bench, self._images = bench, images
        # What was answered in this round: an older word of a failure is no answer to a new request.
        self._answered: set[AgentRequestKey] = set()
        # What was said last of the progress of a pull, and when.
        self._noted: dict[AgentRequestKey, tuple[str, int]] = {}

    async def handle(self, seen: Cycle) -> bool:
        """Ask once per agent and image, wait a moment, move whom the answers concern."""
        del seen
        bench, sessions = self._bench, self._bench.live.needing(Need.IMAGES)
        self._answered.clear()
        await self._listen(sessions)
        if self._ask(sessions):
            await bench.errands.settle()
            await self._listen(sessions)
        plans = bench.writer.decide(self.name, sessions, self._steps)
        moved = await bench.writer.move(self.name, plans)
        await self._note_progress(sessions)
        return bool(moved)

    def _ask(self, sessions: list[SessionRecord]) -> bool:
        asked = False
        for session in sessions:
            for kernel, image in _unprepared(session):
                report = self._report(kernel, image)
                state = None if report is None else report.state
                if state is ImageState.READY or _key(kernel, image) in self._answered:
                    continue
                if state is ImageState.FAILED and kernel.status is KernelStatus.PULLING:
                    continue
                if state is ImageState.FAILED:
                    # The word is older than this kernel's wish: whatever was wrong may be mended.
                    self._bench.errands.pauses.hurry(_key(kernel, image))
                asked |= self._begin(kernel, image)
        return asked

    def _begin(self, kernel: KernelRecord, image: str) -> bool:
        key, gateway = _key(kernel, image), self._bench.gateway
        incarnation = kernel.incarnation or 0
        return self._bench.errands.begin(key, lambda: gateway.prepare_image(key.agent_id, incarnation, image))

    async def _listen(self, sessions: list[SessionRecord]) -> None:
        waiting: dict[AgentRequestKey, list[SessionId]] = {}
        for answer in self._bench.errands.take(PREPARE):
            if answer.error is None:
                self._images.take_in(answer.key.agent_id, answer.key.attempt, [answer.word])
                self._answered.add(answer.key)
                self._bench.errands.pauses.rest(answer.key, _ASK_AGAIN_S)
                continue
            if not waiting:
                waiting = _by_key(sessions)
            if isinstance(answer.error, AgentRefused):  # most likely, it has enrolled anew
                self._bench.live.doubt(waiting.get(answer.key, ()))
            for session_id in waiting.get(answer.key, ()):
                await self._bench.unanswered(self.name, answer, session_id)

    def _report(self, kernel: KernelRecord, image: str) -> ImageReport | None:
        return self._images.of(kernel.agent_id or AgentId(""), kernel.incarnation or 0, image)

    def _steps(self, session: SessionRecord) -> tuple[SessionStep, ...]:
        begin: list[KernelId] = []
        pull: list[KernelId] = []
        ready: list[KernelId] = []
        failed: list[tuple[KernelId, str]] = []
        for kernel, image in _unprepared(session):
            report = self._report(kernel, image)
            state = None if report is None else report.state
            if report is not None and self._has_failed(kernel, image, report):
                failed.append((kernel.kernel_id, f"{image}: {report.detail}"))
            elif state is ImageState.READY:
                ready.append(kernel.kernel_id)
            else:
                begin += [kernel.kernel_id] if kernel.status is KernelStatus.SCHEDULED else []
                pulling = state is ImageState.PULLING and kernel.status is not KernelStatus.PULLING
                pull += [kernel.kernel_id] if pulling else []
        if failed:
            change = by_report(IMAGE_UNAVAILABLE, "; ".join(detail for _, detail in failed[:3]))
            return (SessionStep(KernelTrigger.FAILED, change, tuple(kernel for kernel, _ in failed)),)
        return (
            SessionStep(KernelTrigger.PREPARATION_STARTED, by_coordinator(), tuple(begin)),
            SessionStep(KernelTrigger.PULL_STARTED, by_report(), tuple(pull)),
            SessionStep(KernelTrigger.IMAGE_READY, by_report(), tuple(ready)),
            creation_step(session, ready=ready),
        )

    def _has_failed(self, kernel: KernelRecord, image: str, report: ImageReport) -> bool:
        fresh = kernel.status is KernelStatus.PULLING or _key(kernel, image) in self._answered
        return report.state is ImageState.FAILED and fresh

    async def _note_progress(self, sessions: list[SessionRecord]) -> None:
        """Say how far a pull is, now and then; the store counts."""
        now_ms = self._bench.clock.monotonic_ms()
        if not sessions:
            self._noted.clear()
        for key, ids in _by_key(sessions).items():
            report = self._images.of(key.agent_id, key.attempt, key.subject)
            if report is None or report.state is not ImageState.PULLING:
                continue
            told, at_ms = self._noted.get(key, ("", now_ms - _NOTE_EVERY_MS))
            words = f"{key.subject}: {report.detail}" if report.detail else key.subject
            if now_ms - at_ms >= (_NOTE_EVERY_MS if words == told else _NOTE_NEW_MS):
                self._noted[key] = words, now_ms
                await self._bench.writer.note(ids, by_coordinator(PULLING, words), aloud=words != told)


def _unprepared(session: SessionRecord) -> Iterator[tuple[KernelRecord, str]]:
    """The kernels that wait for an image, and its name."""
    for kernel in session.kernels:
        if kernel.status in _STEPS:
            yield kernel, session.spec.kernels[kernel.index].image


def _by_key(sessions: list[SessionRecord]) -> dict[AgentRequestKey, list[SessionId]]:
    found: dict[AgentRequestKey, dict[SessionId, None]] = {}
    for session in sessions:
        for kernel, image in _unprepared(session):
            found.setdefault(_key(kernel, image), {})[session.session_id] = None
    return {key: list(ids) for key, ids in found.items()}


def _key(kernel: KernelRecord, image: str) -> AgentRequestKey:
    return AgentRequestKey(PREPARE, kernel.agent_id or AgentId(""), image, kernel.incarnation or 0)
