"""Between the words on a link and those of the agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sokovan import __version__
from sokovan.agent.inventory import Inventory
from sokovan.agent.journal_records import KernelKey
from sokovan.agent.kernel_table import KernelTable, Token, reports
from sokovan.agent.messages import CreateRequested, Event, ForgetRequested, PrepareRequested, StopRequested
from sokovan.domain.session import Mount
from sokovan.ports.agent_gateway import GoneProof, ImageReport
from sokovan.ports.runtime import LogPart
from sokovan.wire import frames

DETAIL_MAX = 2_000
REASON_MAX = 500


def event_of(request: frames.Request, token: Token) -> Event | None:
    """What a request means to the supervisor; None if it is none of its business."""
    incarnation, ask = request.incarnation, request.ask
    match ask:
        case frames.CreateKernel():
            _require_mountable(ask.mounts)
            return CreateRequested(token, incarnation, ask)
        case frames.StopKernel():
            return StopRequested(token, incarnation, KernelKey.of(ask), ask.grace_s)
        case frames.ForgetKernel():
            return ForgetRequested(token, incarnation, KernelKey.of(ask))
        case frames.PrepareImage():
            return PrepareRequested(token, incarnation, ask.image)
    return None


def _require_mountable(mounts: Iterable[frames.MountEntry]) -> None:
    for mount in mounts:
        Mount(mount.source, mount.target, mount.read_only)


def reply_of(word: GoneProof | ImageReport | LogPart | None) -> frames.Reply:
    """An answer in the words of the link."""
    match word:
        case None:
            return frames.Done()
        case GoneProof():
            return frames.KernelGone(word.gone, word.exit_code, dict(word.detail))
        case ImageReport():
            return image_word(word)
        case LogPart():
            return frames.LogData(word.offset, word.data, word.end)


def image_word(report: ImageReport) -> frames.ImageStatus:
    """News of an image in the words of the link."""
    return frames.ImageStatus(report.image, report.state.value, report.detail[:DETAIL_MAX])


def hello_of(inventory: Inventory, holdings: KernelTable) -> frames.Hello:
    """How this machine presents itself, with all that it answers for."""
    return frames.Hello(
        agent_id=inventory.agent_id,
        software=__version__,
        identity=inventory.identity,
        incarnation=holdings.incarnation,
        architecture=inventory.architecture,
        scaling_group=inventory.scaling_group,
        slots=dict(inventory.slots.items()),
        devices=tuple(frames.DeviceEntry(device.device_id, device.slot, device.units) for device in inventory.devices),
        labels=dict(inventory.labels),
        kernels_max=inventory.kernels_max,
        kernels=kernel_entries(holdings),
    )


def kernel_entries(holdings: KernelTable) -> tuple[frames.KernelEntry, ...]:
    """Every kernel of the agent, in the words of the link."""
    return tuple(
        frames.KernelEntry(
            report.kernel_id, report.attempt, report.running, report.exit_code, report.reason[:REASON_MAX]
        )
        for report in reports(holdings)
    )


def heartbeat_of(holdings: KernelTable, *, sequence: int, load: Mapping[str, int]) -> frames.Heartbeat:
    """Everything that the agent holds, in the words of the link."""
    return frames.Heartbeat(
        incarnation=holdings.incarnation,
        sequence=sequence,
        kernels=kernel_entries(holdings),
        images=tuple(image_word(report) for report in holdings.images.values()),
        load=dict(load),
    )
