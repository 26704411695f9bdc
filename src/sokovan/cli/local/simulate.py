"""`sokovan simulate`: simulate scheduling on scenario files."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sokovan.cli.exit_codes import FAILED, OK, USAGE
from sokovan.cli.output import as_json, print_data, print_error, print_status, table
from sokovan.domain.errors import SokovanError
from sokovan.domain.plain_values import to_plain
from sokovan.entrypoints.simulate import SimulationOutcome, read_all, replayed, save_snapshots, simulated
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.trace import Verdict


def simulate(files: list[str], *, json: bool, explain: bool, snapshot: bool, save: str | None) -> int:
    """Run scenario or snapshot files and return the exit code."""
    try:
        if snapshot:
            return _replay(files, json=json, explain=explain)
        scenarios = read_all(files)
        if save is not None:
            for path in save_snapshots(scenarios, save):
                print_status(f"wrote {path}")
        outcomes = list(simulated(scenarios))
    except SokovanError as error:
        print_error(error, as_object=json)
        return USAGE
    if json:
        print_data(as_json([_object(outcome, explain=explain) for outcome in outcomes]))
    else:
        _show(outcomes, explain=explain)
    return FAILED if any(outcome.differences for outcome in outcomes) else OK


def _replay(files: list[str], *, json: bool, explain: bool) -> int:
    plans = {file: replayed(file) for file in files}
    if json:
        objects = [{"file": file, "plan": to_plain(plan)} for file, plan in plans.items()]
        print_data(as_json(objects[0]["plan"] if len(objects) == 1 else objects))
        return OK
    for file, plan in plans.items():
        print_data(f"{file}: {len(plan.placements)} placements, {len(plan.reservations)} reservations")
        rows = [(p.kernel_id, p.session_id, p.agent_id) for p in plan.placements]
        if rows:
            print_data(table(("KERNEL", "SESSION", "AGENT"), rows))
        waiting = [verdict for verdict in plan.verdicts if not verdict.kernels_placed]
        if waiting:
            print_data(table(("WAITS", "REASON", "SUMMARY"), [(v.session_id, v.code, v.summary) for v in waiting]))
        if explain:
            _explain(plan)
    return OK


def _show(outcomes: list[SimulationOutcome], *, explain: bool) -> None:
    rows = []
    for outcome in outcomes:
        result = "FAIL" if outcome.differences else "ok"
        placed = str(len(outcome.state.placements))
        waiting = str(sum(1 for verdict in outcome.state.plan.verdicts if not verdict.kernels_placed))
        rows.append((result, placed, waiting, outcome.scenario.name))
    if rows:
        print_data(table(("RESULT", "PLACED", "WAITING", "SCENARIO"), rows))
    for outcome in outcomes:
        if outcome.differences or explain:
            print_data(f"\n{outcome.scenario.file}:{outcome.scenario.line}: {outcome.scenario.name}")
        for difference in outcome.differences:
            print_data(f"  differs  {difference}")
        if explain:
            _explain(outcome.state.plan, indent="  ")
    counts = Counter(bool(outcome.differences) for outcome in outcomes)
    print_status(f"{counts[False]} ok, {counts[True]} failed")


def _explain(plan: SchedulingPlan, *, indent: str = "") -> None:
    for verdict in plan.verdicts:
        print_data(f"{indent}{verdict.session_id}  {verdict.code}  {verdict.advice}")
        for line in _lines(verdict):
            print_data(f"{indent}    {line}")


def _lines(verdict: Verdict) -> list[str]:
    lines = [verdict.summary]
    if verdict.funnel is not None:
        lines.append(f"funnel: {verdict.funnel.sentence()}")
    if verdict.kernels_needed > 1 and not verdict.kernels_placed:
        lines.append(f"gang: {verdict.kernels_fit} of {verdict.kernels_needed} kernels would fit")
    if verdict.ahead:
        more = verdict.position - len(verdict.ahead)
        lines.append(f"behind: {', '.join(verdict.ahead)}" + (f" and {more} more" if more else ""))
    failed = [check for check in verdict.checks if check.result != "ok"]
    passed = len(verdict.checks) - len(failed)
    lines.extend(f"check {check.name}: {check.result}: {check.detail}" for check in failed)
    if passed:
        lines.append(f"checks passed: {', '.join(check.name for check in verdict.checks if check.result == 'ok')}")
    return lines


def _object(outcome: SimulationOutcome, *, explain: bool) -> dict[str, Any]:
    state = outcome.state
    answer: dict[str, Any] = {
        "scenario": outcome.scenario.name,
        "file": outcome.scenario.file,
        "line": outcome.scenario.line,
        "ok": not outcome.differences,
        "differences": outcome.differences,
        "placed": {placement.kernel_id: placement.agent_id for placement in state.placements},
        "reserved": {r.session_id: list(r.agents) for r in state.plan.reservations},
        "evicted": [eviction.kernel_id for eviction in state.evictions],
        "waiting": {v.session_id: v.code for v in state.plan.verdicts if not v.kernels_placed},
    }
    if explain:
        answer["verdicts"] = [{**to_plain(verdict), "advice": verdict.advice} for verdict in state.plan.verdicts]
    return answer
