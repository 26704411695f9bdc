"""Converts between wire frames and the agent's own types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sokovan import __version__
from sokovan.agent.inventory import Inventory
from sokovan.agent.journal_records import KernelKey
from sokovan.agent.kernel_table import KernelTable, Token, reports
from sokovan.agent.messages import CreateRequested, Event, ForgetRequested, PrepareRequested, StopRequested
from sokovan.domain.records import DETAIL_MAX
from sokovan.domain.session import Mount
from sokovan.ports.agent_gateway import GoneProof, ImageReport
from sokovan.ports.runtime import LogPart
from sokovan.wire import frames

REASON_MAX = 500


def event_of(request: frames.Request, token: Token) -> Event | None:
    """The event of a request; None for bulk requests. Raises InvalidSpec."""
    incarnation, command = request.incarnation, request.command
    match command:
        case frames.CreateKernel():
            _require_mountable(command.mounts)
            return CreateRequested(token, incarnation, command)
        case frames.StopKernel():
            return StopRequested(token, incarnation, KernelKey.of(command), command.grace_s)
        case frames.ForgetKernel():
            return ForgetRequested(token, incarnation, KernelKey.of(command))
        case frames.PrepareImage():
            return PrepareRequested(token, incarnation, command.image)
    return None


def _require_mountable(mounts: Iterable[frames.MountEntry]) -> None:
    for mount in mounts:
        Mount(mount.source, mount.target, mount.read_only)


def reply_of(result: GoneProof | ImageReport | LogPart | None) -> frames.Reply:
    """The wire reply for a result."""
    match result:
        case None:
            return frames.Done()
        case GoneProof():
            return frames.KernelGone(result.gone, result.exit_code, dict(result.detail))
        case ImageReport():
            return image_status(result)
        case LogPart():
            return frames.LogData(result.offset, result.data, result.end)


def image_status(report: ImageReport) -> frames.ImageStatus:
    """The wire status of an image."""
    return frames.ImageStatus(report.image, report.state.value, report.detail[:DETAIL_MAX])


def hello_of(inventory: Inventory, table: KernelTable) -> frames.Hello:
    """The first frame of a link: this machine and its kernels."""
    return frames.Hello(
        agent_id=inventory.agent_id,
        software=__version__,
        identity=inventory.identity,
        incarnation=table.incarnation,
        architecture=inventory.architecture,
        scaling_group=inventory.scaling_group,
        slots=dict(inventory.slots.items()),
        devices=tuple(frames.DeviceEntry(device.device_id, device.slot, device.units) for device in inventory.devices),
        labels=dict(inventory.labels),
        kernels_max=inventory.kernels_max,
        kernels=kernel_entries(table),
        shard=inventory.shard,
        images=inventory.images,
    )


def kernel_entries(table: KernelTable) -> tuple[frames.KernelEntry, ...]:
    """Wire entries of every kernel of the agent."""
    return tuple(
        frames.KernelEntry(
            report.kernel_id,
            report.attempt,
            report.running,
            report.exit_code,
            report.reason[:REASON_MAX],
            report.idle_s,
        )
        for report in reports(table)
    )


def heartbeat_of(table: KernelTable, *, sequence: int, load: Mapping[str, int]) -> frames.Heartbeat:
    """A heartbeat frame with the state of the agent."""
    return frames.Heartbeat(
        incarnation=table.incarnation,
        sequence=sequence,
        kernels=kernel_entries(table),
        images=tuple(image_status(report) for report in table.images.values()),
        load=dict(load),
    )
