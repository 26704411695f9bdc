"""Tables and field lists of sessions, arrays, kernels and histories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sokovan.cli import formatting
from sokovan.cli.output import table
from sokovan.cli.rendering import Column
from sokovan.sdk.core.states import FINAL, is_final, state_of, where
from sokovan.sdk.environment import SystemEnvironment
from sokovan.wire.api.arrays import ArrayView
from sokovan.wire.api.sessions import (
    STOP_GRACE_S,
    HistoryLine,
    KernelView,
    PartitionBody,
    SessionView,
)

if TYPE_CHECKING:
    from sokovan.wire.api.evictions import EvictionCostView, EvictionView
    from sokovan.wire.api.explanations import CheckView, VictimView

_AGENTS_SHOWN = 2
_NOTE_MAX = 60
_VICTIMS_SHOWN = 16
_INDEXES_MAX = 30

# A line of a listing: a session, or a whole array.
Listed: TypeAlias = SessionView | ArrayView


def session_columns(*, utc: bool = False, now_s: float | None = None) -> list[Column[SessionView]]:
    """The columns of a list of sessions."""
    now = SystemEnvironment().wall_s() if now_s is None else now_s
    return [
        Column("name", lambda view: view.name),
        Column("state", state_of),
        Column("health", health),
        Column("queue", lambda view: view.queue),
        Column("kernels", lambda view: f"{_running(view)}/{view.size}"),
        Column("gpu", lambda view: formatting.gpus(view.slots)),
        Column("where", placed),
        Column("age", lambda view: formatting.age(view.submitted_at, now_s=now, utc=utc)),
        Column("id", lambda view: view.id, wide=True),
        Column("type", lambda view: view.type, wide=True),
        Column("user", lambda view: view.user, wide=True),
        Column("group", lambda view: view.group, wide=True),
        Column("pool", lambda view: view.scaling_group, wide=True),
        Column("image", lambda view: view.image, wide=True),
        Column("slots", lambda view: formatting.amounts(view.slots), wide=True),
        Column("labels", lambda view: label_texts(view.labels), wide=True),
        Column("exit", lambda view: formatting.or_none(view.exit_code), wide=True),
        Column("note", note),
    ]


def listed_columns(*, utc: bool = False, now_s: float | None = None) -> list[Column[Listed]]:
    """The columns of a list of sessions in which an array is one line."""
    now = SystemEnvironment().wall_s() if now_s is None else now_s
    cells: dict[str, Callable[[ArrayView], str]] = {
        "name": lambda view: view.name,
        "state": lambda view: view.status.upper(),
        "queue": lambda view: view.queue,
        "kernels": lambda view: f"{view.counts.get('running', 0)}/{view.size}",
        "age": lambda view: formatting.age(view.submitted_at, now_s=now, utc=utc),
        "id": lambda view: view.id,
        "type": lambda _: "array",
        "user": lambda view: view.user,
        "group": lambda view: view.group,
        "pool": lambda view: view.scaling_group,
        "note": array_note,
    }
    columns = session_columns(utc=utc, now_s=now)
    return [Column(one.name, _either(one, cells.get(one.name, _no_cell)), wide=one.wide) for one in columns]


def _either(column: Column[SessionView], cell: Callable[[ArrayView], str]) -> Callable[[Listed], str]:
    return lambda view: column.cell(view) if isinstance(view, SessionView) else cell(view)


def _no_cell(_: ArrayView) -> str:
    return formatting.NONE


def array_note(view: ArrayView) -> str:
    """The indexes of an array, and how many of its sessions have which status."""
    indexes = view.indexes if len(view.indexes) <= _INDEXES_MAX else f"{view.indexes[:_INDEXES_MAX]}..."
    return f"array {indexes}: {counts_text(view)}"


def counts_text(view: ArrayView) -> str:
    """How many sessions of an array have which status: `2 running, 8 pending`."""
    live = {status: count for status, count in view.counts.items() if status.upper() not in FINAL}
    counts = {**live, "succeeded": view.succeeded, "failed": view.failed, "cancelled": view.cancelled}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def array_fields(view: ArrayView, *, utc: bool = False, now_s: float | None = None) -> list[tuple[str, str]]:
    """The fields of an array, in the order in which they are printed."""
    now = SystemEnvironment().wall_s() if now_s is None else now_s
    facts = [
        ("name", view.name),
        ("id", view.id),
        ("state", view.status.upper()),
        ("result", view.result or ""),
        ("indexes", view.indexes),
        ("sessions", f"{view.size}: {counts_text(view)}"),
        ("at once", "" if view.limit is None else str(view.limit)),
        ("owner", f"{view.user}, group {view.group}, domain {view.domain}"),
        ("queue", f"{view.queue}, scaling group {view.scaling_group}"),
        ("submitted", formatting.age(view.submitted_at, now_s=now, utc=utc) + ("" if utc else " ago")),
    ]
    return [(fact, value) for fact, value in facts if value]


def history_columns(
    lines: Sequence[HistoryLine] = (),
    kernels: Sequence[KernelView] = (),
    *,
    utc: bool = False,
    now_s: float | None = None,
) -> list[Column[HistoryLine]]:
    """The columns of a history; the first one is always a timestamp.

    With the kernels of the session, lines name kernels by index, with agent and exit code.
    """
    now = SystemEnvironment().wall_s() if now_s is None else now_s
    names = {kernel.id: f"kernel {kernel.index}" for kernel in kernels}
    extra = _kernel_details(lines, kernels)
    return [
        Column("at", lambda line: line.at),
        Column("age", lambda line: formatting.age(line.at, now_s=now, utc=utc), wide=True),
        Column("subject", lambda line: names.get(line.subject, "session" if names else line.subject)),
        Column("state", _transition),
        Column("by", lambda line: line.who),
        Column("reason", lambda line: line.code),
        Column("times", lambda line: str(line.times) if line.times > 1 else ""),
        Column("detail", lambda line: "; ".join(filter(None, (extra.get((line.subject, line.sequence)), line.detail)))),
    ]


def _kernel_details(lines: Sequence[HistoryLine], kernels: Sequence[KernelView]) -> dict[tuple[str, int], str]:
    """Agent and exit code of each kernel, by the transition to which they belong."""
    found: dict[tuple[str, int], str] = {}
    for kernel in kernels:
        transitions = {
            line.after: line.sequence for line in lines if line.subject == kernel.id and line.before != line.after
        }
        if kernel.agent is not None and "scheduled" in transitions:
            found[kernel.id, transitions["scheduled"]] = f"on {kernel.agent}"
        if kernel.exit_code is not None and "terminated" in transitions:
            found[kernel.id, transitions["terminated"]] = f"exit {kernel.exit_code}"
    return found


def kernel_rows(kernels: Sequence[KernelView]) -> list[tuple[str, ...]]:
    """One row per kernel, under KERNEL_HEADINGS."""
    return [
        (
            str(kernel.index),
            formatting.or_none(kernel.rank),
            kernel.role,
            kernel.status.upper(),
            kernel.agent or formatting.NONE,
            formatting.or_none(kernel.exit_code),
            formatting.amounts(kernel.slots),
            ", ".join(f"{name}={port}" for name, port in kernel.ports.items()) or formatting.NONE,
        )
        for kernel in kernels
    ]


# Devices that `session show` names; `agent devices` has all of them.
DEVICES_SHOWN = 16
KERNEL_HEADINGS = ("KERNEL", "RANK", "ROLE", "STATE", "AGENT", "EXIT", "SLOTS", "PORTS")


def note(view: SessionView) -> str:
    """Loan, evictions and reason of its state; while PULLING, the agent's progress."""
    if state_of(view) == "PULLING" and view.reason_detail:
        return view.reason_detail[:_NOTE_MAX]
    # The receipts are numbered, and only the last ones are kept.
    times = 0 if is_final(view) or not view.evictions else view.evictions[-1].number
    evicted = "" if not times else "evicted" if times == 1 else f"evicted {times} times"
    loan = f"on loan from {view.loan}" if view.loan and not is_final(view) else ""
    return ", ".join(part for part in (loan, evicted, view.reason) if part)


def session_fields(view: SessionView, *, utc: bool = False, now_s: float | None = None) -> list[tuple[str, str]]:
    """The fields of a session, in the order in which they are printed."""
    now = SystemEnvironment().wall_s() if now_s is None else now_s

    def when(then: str | None) -> str:
        return formatting.age(then, now_s=now, utc=utc) + ("" if utc or then is None else " ago")

    facts = [
        ("name", view.name),
        ("id", view.id),
        ("state", f"{state_of(view)} since {when(view.since)}"),
        ("result", view.result or ""),
        ("exit code", "" if view.exit_code is None else str(view.exit_code)),
        ("reason", " ".join(part for part in (view.reason, view.reason_detail) if part)),
        ("type", view.type),
        ("owner", f"{view.user}, group {view.group}, domain {view.domain}"),
        ("queue", f"{view.queue}, scaling group {view.scaling_group}, priority {view.priority}"),
        ("image", view.image),
        ("command", " ".join(view.command)),
        ("variables", ", ".join(view.environment)),
        ("secrets", ", ".join(view.secrets)),
        ("workdir", view.workdir),
        ("mounts", ", ".join(view.mounts)),
        ("upload", view.upload),
        ("kernels", f"{view.size}, can start with {view.minimum}" if view.minimum != view.size else str(view.size)),
        ("slots", formatting.amounts(view.slots)),
        ("topology", view.topology or ""),
        ("HyperNode", view.hypernode or ""),
        ("group minimums", ", ".join(f"{name}={least}" for name, least in sorted(view.group_minimums.items()))),
        *((f"partition {one.name}", _partition_text(one)) for one in view.partitions),
        *((f"group {name}", f"in {domain}") for name, domain in sorted(view.group_domains.items())),
        ("kernel priority", ", ".join(_by_role(view, lambda kernel: str(kernel.priority or "")))),
        ("nominated", ", ".join(_by_role(view, lambda kernel: kernel.nominated or ""))),
        ("preemption", _preemption_text(view)),
        *_time_facts(view),
        ("agent labels", ", ".join(part for part in (label_texts(view.require), *view.where) if part)),
        ("architecture", view.architecture),
        ("tolerates", ", ".join(view.tolerations)),
        ("near", ", ".join(view.affinity)),
        ("apart from", ", ".join(view.anti_affinity)),
        *_place_facts(view),
        ("labels", label_texts(view.labels)),
        ("depends on", ", ".join(view.depends_on)),
        ("array", "" if view.array is None else f"{view.array.name}, index {view.array.index} of {view.array.size}"),
        ("time limit", "" if view.time_limit_s is None else formatting.duration(view.time_limit_s)),
        ("idle timeout", "" if view.idle_timeout_s is None else formatting.duration(view.idle_timeout_s)),
        ("stop grace", "" if view.stop_grace_s == STOP_GRACE_S else formatting.duration(view.stop_grace_s)),
        ("ends with", _ending_text(view)),
        ("if agent lost", view.on_agent_lost if view.on_agent_lost != "end" else ""),
        ("attempts", f"{view.attempt} of {view.retry.attempts}" if view.failed_starts else ""),
        *((f"eviction {one.number}", _eviction_text(one, when(one.at))) for one in view.evictions),
        ("checkpoint", when(view.checkpoint_at) if view.checkpoint_at else ""),
        *((f"attempt {one.attempt}", f"failed on {one.agent}: {one.detail}") for one in view.failed_starts),
        ("submitted", when(view.submitted_at)),
        ("held by", ", ".join(view.gates)),
        ("starts at", view.starts_at or ""),
        ("times out", f"at {view.times_out_at}, unless it starts before" if view.times_out_at else ""),
        ("scheduled", when(view.scheduled_at) if view.scheduled_at else ""),
        ("ended", when(view.ended_at) if view.ended_at else ""),
    ]
    return [(fact, value) for fact, value in facts if value]


def _time_facts(view: SessionView) -> list[tuple[str, str]]:
    """The booking, deadline, loan and checkpoints of a session."""
    borrows = "yes" if view.borrow and not view.loan else ""
    return [
        ("booking", view.booking),
        ("deadline", view.deadline or ""),
        ("borrows", borrows),
        ("on loan from", view.loan),
        ("saves every", "" if view.checkpoint_s is None else formatting.duration(view.checkpoint_s)),
    ]


def _ending_text(view: SessionView) -> str:
    """The kernels whose exit ends the session; empty for one kernel."""
    tolerant = ", tolerates failures" if view.tolerates_failures else ""
    return f"{view.ends_with}{tolerant}" if view.size > 1 else ""


def _partition_text(partition: PartitionBody) -> str:
    """`by replica, parts of 4, at least 2 of them, each hard:rack`."""
    parts = [f"by {partition.by}", f"parts of {partition.size}"]
    parts += [f"at least {partition.min_groups} of them"] if partition.min_groups else []
    parts += [f"each {partition.topology}"] if partition.topology else []
    return ", ".join(parts)


def _place_facts(view: SessionView) -> list[tuple[str, str]]:
    """Agents and devices of the kernels."""
    return [("where", placed(view) if view.kernels else ""), ("devices", _devices_text(view))]


def _devices_text(view: SessionView) -> str:
    """The devices of the kernels, the first of many: `kernel 0: GPU-1, GPU-2; kernel 1: GPU-7`."""
    held = [
        (kernel.index, device) for kernel in view.kernels for devices in kernel.devices.values() for device in devices
    ]
    shown: dict[int, list[str]] = {}
    for index, device in held[:DEVICES_SHOWN]:
        shown.setdefault(index, []).append(device)
    named = [f"kernel {index}: {', '.join(devices)}" for index, devices in shown.items()]
    more = [f"{len(held) - DEVICES_SHOWN} more"] if len(held) > DEVICES_SHOWN else []
    return "; ".join((*named, *more))


def _by_role(view: SessionView, text: Callable[[KernelView], str]) -> list[str]:
    """A value of the kernels by their role, for those that have one."""
    return list(dict.fromkeys(f"{kernel.role}={text(kernel)}" for kernel in view.kernels if text(kernel)))


def _preemption_text(view: SessionView) -> str:
    """Limits of preemption; usually a session may preempt and be preempted, and is not moved."""
    texts = [] if view.preemptible else ["others may not preempt it"]
    texts += ["it may not preempt others"] if view.preemption == "never" else []
    usual = "requeue" if view.type == "batch" else "end"
    texts += ["it may be moved"] if view.migratable else []
    texts += [] if view.on_preempt in {"", usual} else [f"after an eviction: {view.on_preempt}"]
    return "; ".join(texts)


def _eviction_text(eviction: EvictionView, when: str) -> str:
    """`preempt 20s ago, for s2: 2 kernels; 40 slot seconds since its last checkpoint: lost`."""
    count = "all kernels" if eviction.whole else "1 kernel" if eviction.kernels == 1 else f"{eviction.kernels} kernels"
    taker = eviction.for_name or eviction.for_session or "a session of another user"
    rule = f" (rule {eviction.rule})" if eviction.rule else ""
    if eviction.completed:
        return f"{eviction.action} {when}, for {taker}: {count}; it had ended by itself before, nothing was lost"
    since = "its last checkpoint" if eviction.reported else "its start (no checkpoint was reported)"
    if eviction.saves_every_s is not None and not eviction.reported:
        since = f"its last save (it saves every {formatting.duration(eviction.saves_every_s)})"
    since += f" (step {eviction.step})" if eviction.step is not None else ""
    fate = "lost" if eviction.ended_at else f"at stake; they end by {eviction.ends_by}"
    lost = f"{eviction.lost_slot_s} slot seconds since {since}: {fate}"
    return f"{eviction.action}{rule} {when}, for {taker}: {count}; {lost}{_choice_text(eviction)}"


def _choice_text(eviction: EvictionView) -> str:
    """The cost by which victims were chosen, and that of the next best ones."""
    costs = (("; cost of all victims: ", eviction.cost), ("; next best: ", eviction.next_best))
    return "".join(f"{name}{_cost_text(cost)}" for name, cost in costs if cost is not None)


def _cost_text(cost: EvictionCostView) -> str:
    """`loans only, 1 whole gang, priority 2, 30 slot minutes lost, 4 kernels`."""
    parts = (
        "loans only" if cost.only_loans else "",
        _counted(cost.whole_gangs, "whole gang"),
        f"queue distance {cost.queue_distance}, queue priority {cost.queue_priority}" if cost.queue_distance else "",
        f"priority {cost.priority}",
        f"kernel priority {cost.kernel_priority}" if cost.kernel_priority else "",
        f"{_counted(cost.lost_slot_minutes, 'slot minute')} lost",
        _counted(cost.kernels, "kernel"),
    )
    return ", ".join(part for part in parts if part)


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def label_texts(labels: Mapping[str, str]) -> str:
    """Labels as they are given: team=vision, nightly=."""
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def check_table(checks: Sequence[CheckView]) -> list[str]:
    """The scheduler's checks, one per line."""
    return indented(table(("CHECK", "RESULT", "DETAIL"), [(one.name, one.result, one.detail) for one in checks]))


def victim_lines(victims: Sequence[VictimView]) -> list[str]:
    """The sessions that would be evicted, one per line; none without any."""
    rows = [
        (
            one.name or one.session or "of another user",
            one.action,
            one.rule,
            f"all {one.kernels}" if one.whole else str(one.kernels),
            str(one.lost_slot_s),
        )
        for one in victims[:_VICTIMS_SHOWN]
    ]
    more = [f"  ... and {len(victims) - _VICTIMS_SHOWN} more"] if len(victims) > _VICTIMS_SHOWN else []
    heading = ("WOULD EVICT", "BY", "RULE", "KERNELS", "LOST SLOT SECONDS")
    return ["", *indented(table(heading, rows)), *more] if rows else []


def funnel_line(funnel: Mapping[str, int]) -> str:
    """The number of agents left after each check."""
    return "  agents: " + " → ".join(f"{step.replace('_', ' ')} {count}" for step, count in funnel.items())


def indented(text: str) -> list[str]:
    """The lines of a table, indented."""
    return [f"  {line}" for line in text.splitlines()]


def health(view: SessionView) -> str:
    """The health of a session, in one term."""
    if is_final(view):
        return {"success": "ok", "failure": "failed", "cancelled": "cancelled"}.get(view.result or "", formatting.NONE)
    return {"PENDING": "wait", "RUNNING": "ok", "TERMINATING": "ending"}.get(state_of(view), "start")


def placed(view: SessionView) -> str:
    """Its agents; if there are many, their number and HyperNode."""
    if view.agents <= _AGENTS_SHOWN:
        return ", ".join(where(view)) or formatting.NONE
    return f"{view.hypernode} ({view.agents} agents)" if view.hypernode else f"{view.agents} agents"


def _running(view: SessionView) -> int:
    return view.kernel_counts.get("running", 0)


def _transition(line: HistoryLine) -> str:
    after = line.after.upper()
    return after if line.before in {None, line.after} else f"{(line.before or '').upper()} → {after}"
