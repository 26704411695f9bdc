"""Scheduling core benchmark: `python -m benchmarks.decide [CASE...] [--json]`.

Each case is a whole cycle, `schedule(snapshot, profile)`, with all default
validators and explanations on. The snapshot and its HyperNode tree (which changes
only with the network) are built outside the measured time, anew for every run, so
that no cache survives; the time of the tree is reported separately. The first run is
a warm-up; the best of the runs after it is reported, because machines are noisy.
Each case runs in its own process, so that peak memory is measured per case.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import time

from benchmarks.clusters import CASES, Case
from sokovan.scheduling.pipeline import schedule

RUNS = 5


def measure(case: Case, *, runs: int = RUNS) -> dict[str, object]:
    """Measure one case: seconds of the best run, and the number of placements."""
    seconds, trees, plan, snapshot = [], [], None, None
    for _ in range(runs + 1):
        snapshot = case.make()
        begin = time.perf_counter()  # noqa: TID251  # a benchmark reads the clock
        _ = snapshot.tree
        trees.append(time.perf_counter() - begin)  # noqa: TID251  # a benchmark reads the clock
        gc.collect()
        begin = time.perf_counter()  # noqa: TID251  # a benchmark reads the clock
        plan = schedule(snapshot, case.profile)
        seconds.append(time.perf_counter() - begin)  # noqa: TID251  # a benchmark reads the clock
    assert plan is not None
    assert snapshot is not None
    best = min(seconds[1:])
    return {
        "case": case.name,
        "goal": case.goal,
        "agents": len(snapshot.agents),
        "sessions": len(snapshot.sessions),
        "kernels": sum(len(session.kernels) for session in snapshot.sessions),
        "placed": len(plan.placements),
        "seconds": round(best, 6),
        "tree_seconds": round(min(trees[1:]), 6),
        "placements_per_s": round(len(plan.placements) / best),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> int:
    """Run the named cases, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decide", description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(case.name for case in CASES))
    parser.add_argument("--json", action="store_true", help="one JSON object per case")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs after the warm-up; the best counts")
    options = parser.parse_args()
    unknown = set(options.cases) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    chosen = [case for case in CASES if not options.cases or case.name in options.cases]
    for case in chosen:
        figures = measure(case, runs=max(1, options.runs)) if len(chosen) == 1 else _in_child(case, options.runs)
        print(json.dumps(figures) if options.json else _row(figures), flush=True)
    return 0


def _in_child(case: Case, runs: int) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks.decide", case.name, "--json", "--runs", str(runs)]
    answer: dict[str, object] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return answer


def _row(figures: dict[str, object]) -> str:
    seconds = float(str(figures["seconds"]))
    return (
        f"{figures['case']:16} {seconds * 1000:9.1f} ms {figures['placements_per_s']:>8}/s"
        f"  placed {figures['placed']:>6}  goal {figures['goal']}"
    )


if __name__ == "__main__":
    sys.exit(main())
