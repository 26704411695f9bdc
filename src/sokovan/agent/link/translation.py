"""Converts between wire frames and the agent's own types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from sokovan import __version__
from sokovan.agent.inventory import Inventory
from sokovan.agent.journal_records import KernelKey
from sokovan.agent.kernel_table import KernelTable, Token, reports
from sokovan.agent.messages import CreateRequested, Event, ForgetRequested, PrepareRequested, StopRequested
from sokovan.domain.lifecycle.eviction import Checkpoint
from sokovan.domain.records import DETAIL_MAX
from sokovan.domain.session import Mount
from sokovan.ports.agent_gateway import GoneProof, ImageReport
from sokovan.ports.agent_states import DeviceFigures, KernelReport
from sokovan.ports.runtime import KernelUse, LogPart
from sokovan.wire import frames

# The work of devices, by device.
Figures: TypeAlias = Mapping[str, DeviceFigures]

REASON_MAX = 500
# Room in a frame for kernels and for the details of images; the rest is for what is always there.
KERNELS_BYTES_MAX = 512 << 10
IMAGES_BYTES_MAX = 128 << 10
_ENTRY_BYTES = 80


def event_of(request: frames.Request, token: Token) -> Event | None:
    """The event of a request; None for bulk requests. Raises InvalidSpec."""
    incarnation, command = request.incarnation, request.command
    match command:
        case frames.CreateKernel():
            _require_mountable(command.mounts)
            # The remains of a kernel name the incarnation that started it.
            return CreateRequested(token, incarnation, replace(command, incarnation=incarnation))
        case frames.StopKernel():
            return StopRequested(token, incarnation, KernelKey.of(command), command.grace_s, command.notice)
        case frames.ForgetKernel():
            return ForgetRequested(token, incarnation, KernelKey.of(command))
        case frames.PrepareImage():
            return PrepareRequested(token, incarnation, command.image)
    return None


def _require_mountable(mounts: Iterable[frames.MountEntry]) -> None:
    for mount in mounts:
        Mount(mount.source, mount.target, mount.read_only)


def reply_of(result: GoneProof | ImageReport | LogPart | KernelUse | None) -> frames.Reply:
    """The wire reply for a result."""
    match result:
        case None:
            return frames.Done()
        case GoneProof():
            saved = _checkpoint_entry(result.checkpoint)
            return frames.KernelGone(result.gone, result.exit_code, dict(result.detail), saved, result.by_itself)
        case ImageReport():
            return image_status(result)
        case LogPart():
            return frames.LogData(result.offset, result.data, result.end)
        case KernelUse():
            return frames.UseFigures(result.sampled_ms, result.cpu_ms, result.memory_bytes, result.processes)


def image_status(report: ImageReport) -> frames.ImageStatus:
    """The wire status of an image."""
    return frames.ImageStatus(report.image, report.state.value, report.detail[:DETAIL_MAX])


def hello_of(inventory: Inventory, table: KernelTable) -> frames.Hello:
    """The first frame of a link: this machine and its kernels."""
    kernels, partial = kernel_entries(table)
    return frames.Hello(
        agent_id=inventory.agent_id,
        software=__version__,
        identity=inventory.identity,
        process=inventory.process,
        incarnation=table.incarnation,
        architecture=inventory.architecture,
        scaling_group=inventory.scaling_group,
        slots=dict(inventory.slots.items()),
        devices=tuple(frames.DeviceEntry(device.device_id, device.slot, device.units) for device in inventory.devices),
        labels=dict(inventory.labels),
        kernels_max=inventory.kernels_max,
        kernels=kernels,
        partial=partial,
        shard=inventory.shard,
        images=inventory.images,
        bundles=True,
        measures=True,
    )


def kernel_entries(table: KernelTable) -> tuple[tuple[frames.KernelEntry, ...], bool]:
    """Wire entries of the kernels of the agent, and whether some are left out.

    Those that run come first, then those whose end no manager has confirmed. A part of the
    room is for confirmed ones, because a manager forgets only what is listed.
    """
    every = reports(table)
    if sum(map(_size, every)) <= KERNELS_BYTES_MAX:
        return tuple(map(_entry, every)), False
    confirmed = [one for one in every if one.exit_code is not None and _key(one) in table.tombstones]
    known = set(map(_key, confirmed))
    unconfirmed = sorted((one for one in every if _key(one) not in known), key=lambda one: one.exit_code is not None)
    first = _within(unconfirmed, KERNELS_BYTES_MAX * 3 // 4)
    rest = _within(confirmed, KERNELS_BYTES_MAX - sum(map(_size, first)))
    chosen = sorted((*first, *rest), key=_key)
    return tuple(map(_entry, chosen)), len(chosen) < len(every)


def _key(report: KernelReport) -> KernelKey:
    return KernelKey(report.kernel_id, report.attempt)


def _size(report: KernelReport) -> int:
    """An upper bound of the bytes of an entry."""
    return _ENTRY_BYTES + len(report.kernel_id) + len(report.reason[:REASON_MAX].encode())


def _within(given: Iterable[KernelReport], bytes_max: int) -> list[KernelReport]:
    """The first reports that fit."""
    found: list[KernelReport] = []
    for report in given:
        bytes_max -= _size(report)
        if bytes_max < 0:
            break
        found.append(report)
    return found


def _entry(report: KernelReport) -> frames.KernelEntry:
    return frames.KernelEntry(
        report.kernel_id,
        report.attempt,
        report.running,
        report.exit_code,
        report.reason[:REASON_MAX],
        report.idle_s,
        _checkpoint_entry(report.checkpoint),
    )


def _checkpoint_entry(checkpoint: Checkpoint | None) -> frames.CheckpointEntry | None:
    if checkpoint is None:
        return None
    return frames.CheckpointEntry(checkpoint.at_ms, checkpoint.step, checkpoint.done)


def _image_statuses(given: Iterable[ImageReport]) -> tuple[frames.ImageStatus, ...]:
    """The states of images, with details as long as there is room for them."""
    left, found = IMAGES_BYTES_MAX, list[frames.ImageStatus]()
    for report in given:
        status = image_status(report)
        left -= len(status.detail.encode())
        found.append(status if left >= 0 else frames.ImageStatus(status.image, status.state))
    return tuple(found)


def heartbeat_of(table: KernelTable, *, sequence: int, load: Mapping[str, int], devices: Figures) -> frames.Heartbeat:
    """A heartbeat frame with the state of the agent."""
    kernels, partial = kernel_entries(table)
    return frames.Heartbeat(
        incarnation=table.incarnation,
        sequence=sequence,
        kernels=kernels,
        images=_image_statuses(table.images.values()),
        load=dict(load),
        partial=partial,
        faults=dict(table.device_faults),
        devices={
            device: frames.DeviceLoad(one.use_percent, one.memory_used_bytes, one.memory_bytes, one.temperature_c)
            for device, one in devices.items()
        },
    )
