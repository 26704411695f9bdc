"""Prepares images on agents for the kernels placed there."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from sokovan.domain.cluster.image import image_reference
from sokovan.domain.ids import AgentId, KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus, KernelTrigger
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.orchestrator.agent_requests import REPEAT_S, AgentRequestKey
from sokovan.orchestrator.image_reports import ImageReports
from sokovan.orchestrator.sessions.context import CycleInput, HandlerContext
from sokovan.orchestrator.sessions.endings import failed_start
from sokovan.orchestrator.sessions.handlers.start import creation_step
from sokovan.orchestrator.sessions.session_cache import UNPREPARED, Need
from sokovan.orchestrator.sessions.session_writer import SessionStep, by_coordinator, by_report
from sokovan.ports.agent_gateway import AgentRefused, ImageReport, ImageState

PREPARE = "prepare"
IMAGE_UNAVAILABLE = "image-unavailable"
PULLING = "pulling"
# Intervals at which the progress of a pull is noted: changed, and unchanged.
_NOTE_CHANGED_MS = 1_000
_NOTE_EVERY_MS = 5_000


class PrepareImages:
    """Moves kernels to PREPARED, and on to CREATING when their gang is ready."""

    name = "prepare"

    def __init__(self, context: HandlerContext, images: ImageReports) -> None:
        self._context, self._images = context, images
        self._sessions, self._writer, self._clock = context.sessions, context.writer, context.clock
        self._requests, self._backoff, self._gateway = context.requests, context.backoff, context.gateway
        # Requests answered since all sessions were seen; a failure reported earlier does not answer a new request.
        self._answered: set[AgentRequestKey] = set()
        # The last note on the progress of each pull, and its time.
        self._noted: dict[AgentRequestKey, tuple[str, int]] = {}

    def clear(self) -> None:
        """Forget replies and progress notes."""
        self._answered.clear()
        self._noted.clear()

    async def handle(self, cycle: CycleInput) -> bool:
        """Request each image once per agent, wait briefly for replies, move the kernels."""
        del cycle
        sessions = self._sessions.needing(Need.IMAGES)
        try:
            await self._take_replies()
            if self._request(sessions):
                await self._requests.settle(PREPARE)
                await self._take_replies()
            plans = self._writer.decide(self.name, sessions, self._steps)
        finally:
            if not self._sessions.bulk.hidden:
                self._answered.clear()
        moved = await self._writer.move(self.name, plans)
        await self._note_progress(sessions)
        return bool(moved)

    def _request(self, sessions: list[SessionRecord]) -> bool:
        begun = False
        for session in sessions:
            for key, kernels in _waiting(session).items():
                report = self._report(key)
                state = None if report is None else report.state
                if state is ImageState.READY or key in self._answered:
                    continue
                if state is ImageState.FAILED and all(one.status is KernelStatus.PULLING for one in kernels):
                    continue
                if state is ImageState.FAILED:
                    # The failure predates this kernel's request; retry.
                    self._backoff.retry_now(key)
                begun |= self._begin(key)
        return begun

    def _begin(self, key: AgentRequestKey) -> bool:
        gateway = self._gateway
        return self._requests.begin(key, lambda: gateway.prepare_image(key.agent_id, key.attempt, key.subject))

    async def _take_replies(self) -> None:
        waiting: dict[AgentRequestKey, list[SessionId]] = {}
        for reply in self._requests.take(PREPARE):
            if reply.error is None:
                self._images.update(reply.key.agent_id, reply.key.attempt, [reply.value])
                self._answered.add(reply.key)
                self._backoff.hold(reply.key, REPEAT_S)
                continue
            if not waiting:
                waiting = _by_key(self._sessions.all())
            if isinstance(reply.error, AgentRefused):  # most likely it has re-enrolled
                self._sessions.mark_stale(waiting.get(reply.key, ()))
            for session_id in waiting.get(reply.key, ()):
                await self._context.request_failed(self.name, reply, session_id)

    def _report(self, key: AgentRequestKey) -> ImageReport | None:
        return self._images.of(key.agent_id, key.attempt, key.subject)

    def _steps(self, session: SessionRecord) -> tuple[SessionStep, ...]:
        begin: list[KernelRecord] = []
        pull: list[KernelRecord] = []
        ready: list[KernelRecord] = []
        failed: list[tuple[KernelId, str]] = []
        for key, kernels in _waiting(session).items():
            report = self._report(key)
            state = None if report is None else report.state
            lost = [one for one in kernels if state is ImageState.FAILED and self._has_failed(one, key)]
            if report is not None and lost:
                failed += [(one.kernel_id, f"{key.subject}: {report.detail}") for one in lost]
            elif state is ImageState.READY:
                ready += kernels
            else:
                begin += [one for one in kernels if one.status is KernelStatus.SCHEDULED]
                if state is ImageState.PULLING:
                    pull += [one for one in kernels if one.status is not KernelStatus.PULLING]
        if failed:
            change = by_report(IMAGE_UNAVAILABLE, "; ".join(detail for _, detail in failed[:3]))
            step = SessionStep(KernelTrigger.FAILED, change, tuple(kernel for kernel, _ in failed))
            return (failed_start(session, step),)
        images_ready = _in_order(ready)
        return (
            SessionStep(KernelTrigger.PREPARATION_STARTED, by_coordinator(), _in_order(begin)),
            SessionStep(KernelTrigger.PULL_STARTED, by_report(), _in_order(pull)),
            SessionStep(KernelTrigger.IMAGE_READY, by_report(), images_ready),
            creation_step(session, ready=frozenset(images_ready)),
        )

    def _has_failed(self, kernel: KernelRecord, key: AgentRequestKey) -> bool:
        """Whether a reported failure is one of this kernel's request."""
        return kernel.status is KernelStatus.PULLING or key in self._answered

    async def _note_progress(self, sessions: list[SessionRecord]) -> None:
        """Note the progress of pulls in the history of their sessions."""
        now_ms = self._clock.monotonic_ms()
        if not sessions:
            self._noted.clear()
        for key, ids in _by_key(sessions).items():
            report = self._images.of(key.agent_id, key.attempt, key.subject)
            if report is None or report.state is not ImageState.PULLING:
                continue
            noted, at_ms = self._noted.get(key, ("", now_ms - _NOTE_EVERY_MS))
            text = f"{key.subject}: {report.detail}" if report.detail else key.subject
            if now_ms - at_ms >= (_NOTE_EVERY_MS if text == noted else _NOTE_CHANGED_MS):
                self._noted[key] = text, now_ms
                await self._writer.note(ids, by_coordinator(PULLING, text), emit=text != noted)


def _waiting(session: SessionRecord) -> dict[AgentRequestKey, list[KernelRecord]]:
    """The kernels that wait for an image, by image and agent: a gang has many on each agent."""
    found: dict[tuple[AgentId | None, str, int | None], list[KernelRecord]] = {}
    specs, digests = session.spec.kernels, session.spec.image_digests
    for kernel in session.kernels:
        if kernel.status in UNPREPARED:
            image = image_reference(specs[kernel.index].image, digests)
            found.setdefault((kernel.agent_id, image, kernel.incarnation), []).append(kernel)
    return {
        AgentRequestKey(PREPARE, agent_id or AgentId(""), image, incarnation or 0): kernels
        for (agent_id, image, incarnation), kernels in found.items()
    }


def _in_order(kernels: Iterable[KernelRecord]) -> tuple[KernelId, ...]:
    """By index: of a gang that starts in slices, the kernel where the others meet comes first."""
    return tuple([kernel.kernel_id for kernel in sorted(kernels, key=attrgetter("index"))])


def _by_key(sessions: Iterable[SessionRecord]) -> dict[AgentRequestKey, list[SessionId]]:
    found: dict[AgentRequestKey, list[SessionId]] = {}
    for session in sessions:
        for key in _waiting(session):
            found.setdefault(key, []).append(session.session_id)
    return found
