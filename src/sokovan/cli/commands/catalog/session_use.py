"""`sokovan session stats`: what the kernels of a session use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import NONE, amount, or_none
from sokovan.cli.output import flush_output, print_data, print_status
from sokovan.cli.rendering import Column, OutputFormat, show_all
from sokovan.sdk.core.states import FINAL
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.errors import InvalidSetting

if TYPE_CHECKING:
    from sokovan.wire.api.explanations import DeviceFiguresView, KernelUseView, SessionMetricsView

# Agents measure a kernel at most once per second.
PAUSE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelStats:
    """Use of a kernel, with the cores that it used between two measurements."""

    kernel: int
    rank: int | None
    agent: str | None
    status: str
    cpu_cores: float | None
    cpu_ms: int | None
    memory_bytes: int | None
    processes: int | None
    sampled_ms: int | None
    slots: dict[str, int]
    error: str | None
    devices: dict[str, DeviceFiguresView]


def _of(used: str, limit: int, slot: str) -> str:
    return f"{used}/{amount(slot, limit)}" if limit else used


def _cpu(stats: KernelStats) -> str:
    return NONE if stats.cpu_cores is None else _of(f"{stats.cpu_cores:.2f}", stats.slots.get("cpu", 0), "cpu")


def _memory(stats: KernelStats) -> str:
    held = stats.memory_bytes
    return NONE if held is None else _of(amount("mem", held), stats.slots.get("mem", 0), "mem")


def _devices(stats: KernelStats) -> str:
    """The mean use of its devices, and the memory of all of them."""
    figures = stats.devices.values()
    uses = [one.use_percent for one in figures if one.use_percent is not None]
    held = [one.memory_used_bytes for one in figures if one.memory_used_bytes is not None]
    limit = sum(one.memory_bytes or 0 for one in figures)
    use = [f"{round(sum(uses) / len(uses))}%"] if uses else []
    return " ".join([*use, *([_of(amount("mem", sum(held)), limit, "mem")] if held else [])]) or NONE


COLUMNS: list[Column[KernelStats]] = [
    Column("kernel", lambda stats: str(stats.kernel)),
    Column("rank", lambda stats: or_none(stats.rank), wide=True),
    Column("agent", lambda stats: or_none(stats.agent)),
    Column("state", lambda stats: stats.status.upper()),
    Column("cpu", _cpu),
    Column("memory", _memory),
    Column("processes", lambda stats: or_none(stats.processes)),
    Column("devices", _devices),
    Column("problem", lambda stats: or_none(stats.error)),
]


def stats(
    name: str,
    /,
    *,
    watch: Annotated[bool, Parameter(name=["--watch", "-w"], negative=())] = False,
    kernel: Annotated[tuple[int, ...], Parameter(negative=())] = (),
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """Show what the kernels of a session use.

    CPU is in cores between two measurements, one second apart; MEMORY is held now.
    After the slash is what the kernel asked for. DEVICES is the mean use and the
    memory of its devices, as their agent measured them last. By default shows the
    first 64 kernels.

    For example:
      sokovan session stats ddp
      sokovan session stats ddp --watch
      sokovan session stats ddp --kernel 64 --kernel 65 --json

    Parameters
    ----------
    name
        Session name or ID, or a unique prefix of one.
    watch
        Measure every second, until the session ends or Ctrl-C.
    kernel
        Only this kernel, counted from 0; may be repeated.
    """
    if any(index < 0 for index in kernel):
        raise InvalidSetting(f"--kernel {min(kernel)} is negative", hint="use 0 or more")
    fmt = output.format()
    if watch and fmt.name == "json":  # a single JSON document cannot grow
        fmt = OutputFormat("jsonl")
    environment = SystemEnvironment()
    with output.client() as client:
        before = client.kernels.metrics(name, kernel)
        while True:
            if before.status.upper() not in FINAL:
                environment.sleep(PAUSE_S)
            now = client.kernels.metrics(before.session, kernel)
            show_all(compared(before, now), COLUMNS, fmt, name=lambda one: str(one.kernel))
            flush_output()
            if not watch or now.status.upper() in FINAL:
                break
            if fmt.is_table:
                print_data("")
            before = now
    if not kernel and now.size > len(now.items):
        print_status(f"the first {len(now.items)} of {now.size} kernels are shown; --kernel shows others")
    return OK


def compared(before: SessionMetricsView, now: SessionMetricsView) -> list[KernelStats]:
    """The later measurements, with the cores that were used since the earlier ones."""
    earlier: Mapping[int, KernelUseView] = {one.index: one for one in before.items}
    return [_stats(earlier.get(one.index), one) for one in now.items]


def _stats(before: KernelUseView | None, now: KernelUseView) -> KernelStats:
    return KernelStats(
        kernel=now.index,
        rank=now.rank,
        agent=now.agent,
        status=now.status,
        cpu_cores=None if before is None else cores(before, now),
        cpu_ms=now.cpu_ms,
        memory_bytes=now.memory_bytes,
        processes=now.processes,
        sampled_ms=now.sampled_ms,
        slots=now.slots,
        error=now.error,
        devices=now.devices,
    )


def cores(before: KernelUseView, now: KernelUseView) -> float | None:
    """Cores in use between two measurements; None if they cannot be compared."""
    figures: Sequence[int | None] = (before.cpu_ms, now.cpu_ms, before.sampled_ms, now.sampled_ms)
    used_before, used, at_before, at = figures
    if used_before is None or used is None or at_before is None or at is None or at <= at_before:
        return None
    # A kernel that was started again counts from 0.
    return round(max(0, used - used_before) / (at - at_before), 3)
