"""Between the ports' words and those on a link."""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.domain.ids import AgentId, KernelId
from sokovan.ports.agent_gateway import GoneProof, ImageReport, ImageState
from sokovan.ports.agent_states import AgentState, KernelReport
from sokovan.ports.runtime import LogPart
from sokovan.wire import frames


def gone_of(word: frames.KernelGone) -> GoneProof:
    """An agent's word on a kernel that was to end."""
    return GoneProof(word.gone, word.exit_code, word.detail)


def log_of(word: frames.LogData) -> LogPart:
    """A piece of output."""
    return LogPart(word.offset, word.data, word.end)


def image_of(word: frames.ImageStatus) -> ImageReport:
    """News of an image; a state that this release does not know is told as a failure."""
    try:
        return ImageReport(word.image, ImageState(word.state), word.detail)
    except ValueError:
        return ImageReport(word.image, ImageState.FAILED, f"{word.state}: {word.detail}")


def state_of(agent_id: AgentId, heartbeat: frames.Heartbeat) -> AgentState:
    """What an agent says that it holds."""
    return AgentState(
        agent_id=agent_id,
        incarnation=heartbeat.incarnation,
        sequence=heartbeat.sequence,
        kernels=tuple(
            KernelReport(KernelId(entry.kernel_id), entry.attempt, entry.running, entry.exit_code, entry.reason)
            for entry in heartbeat.kernels
        ),
        load=heartbeat.load,
    )


def images_of(words: Iterable[frames.ImageStatus]) -> tuple[ImageReport, ...]:
    """News of all images."""
    return tuple(image_of(word) for word in words)
