"""Converts wire frames to the types of the ports."""

from __future__ import annotations

from collections.abc import Iterable

from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.eviction import Checkpoint
from sokovan.ports.agent_gateway import GoneProof, ImageReport, ImageState
from sokovan.ports.agent_states import AgentState, DeviceFigures, KernelReport
from sokovan.ports.runtime import KernelUse, LogPart
from sokovan.wire import frames


def gone_of(frame: frames.KernelGone) -> GoneProof:
    """The proof of a kernel's end."""
    saved = checkpoint_of(frame.checkpoint)
    return GoneProof(frame.gone, frame.exit_code, frame.detail, saved, frame.by_itself)


def checkpoint_of(entry: frames.CheckpointEntry | None) -> Checkpoint | None:
    """The last checkpoint of a kernel, if it reported one."""
    return None if entry is None else Checkpoint(entry.at_ms, entry.step, entry.done)


def log_of(frame: frames.LogData) -> LogPart:
    """A part of a kernel's output."""
    return LogPart(frame.offset, frame.data, frame.end)


def use_of(frame: frames.UseFigures) -> KernelUse:
    """Measured use of a kernel."""
    return KernelUse(frame.sampled_ms, frame.cpu_ms, frame.memory_bytes, frame.processes)


def image_of(frame: frames.ImageStatus) -> ImageReport:
    """The report of an image; an unknown state counts as a failure."""
    try:
        return ImageReport(frame.image, ImageState(frame.state), frame.detail)
    except ValueError:
        return ImageReport(frame.image, ImageState.FAILED, f"{frame.state}: {frame.detail}")


def state_of(agent_id: AgentId, heartbeat: frames.Heartbeat) -> AgentState:
    """The state of an agent from a heartbeat."""
    return AgentState(
        agent_id=agent_id,
        incarnation=heartbeat.incarnation,
        sequence=heartbeat.sequence,
        kernels=tuple(
            KernelReport(
                KernelId(entry.kernel_id),
                entry.attempt,
                entry.running,
                entry.exit_code,
                entry.reason,
                entry.idle_s,
                checkpoint_of(entry.checkpoint),
            )
            for entry in heartbeat.kernels
        ),
        load=heartbeat.load,
        partial=heartbeat.partial,
        faults=heartbeat.faults,
        devices={
            device: DeviceFigures(one.use_percent, one.memory_used_bytes, one.memory_bytes, one.temperature_c)
            for device, one in heartbeat.devices.items()
        },
    )


def images_of(message: Iterable[frames.ImageStatus]) -> tuple[ImageReport, ...]:
    """The reports of all images."""
    return tuple(image_of(frame) for frame in message)
