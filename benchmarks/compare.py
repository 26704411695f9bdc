"""Two versions of the core against each other: `python -m benchmarks.compare BASE`.

BASE is a checkout of the older version. For every case of `benchmarks.decide` the two
versions run alternately, each time in a new process. CPU time is compared, not wall
time, and the best run of each counts, because machines are shared and noisy.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.clusters import CASES

HERE = Path(__file__).resolve().parents[1]


# Runs in either version: the older one need not have this module.
_CHILD = """
import gc, sys, time
from benchmarks.clusters import CASES
from sokovan.scheduling.pipeline import schedule

name, runs = sys.argv[1], int(sys.argv[2])
case = next(case for case in CASES if case.name == name)
seconds = []
for _ in range(runs + 1):
    snapshot = case.make()
    snapshot.tree
    gc.collect()
    begin = time.process_time()
    schedule(snapshot, case.profile)
    seconds.append(time.process_time() - begin)
print(min(seconds[1:]))
"""


def main() -> int:
    """Compare the named cases, or all, and print a table of ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__.partition("\n")[0])
    parser.add_argument("base", type=Path, help="checkout of the older version")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="the cases of benchmarks.decide; all by default")
    parser.add_argument("--rounds", type=int, default=5, help="alternations of old and new")
    parser.add_argument("--runs", type=int, default=3, help="runs in each process, after a warm-up")
    options = parser.parse_args()
    print("| case | old ms | new ms | new / old |\n|---|---|---|---|")
    for case in CASES:
        if options.cases and case.name not in options.cases:
            continue
        old, new = [], []
        for _ in range(options.rounds):
            old.append(_in_tree(options.base, case.name, options.runs))
            new.append(_in_tree(HERE, case.name, options.runs))
        ratio = min(new) / min(old)
        print(f"| {case.name} | {min(old) * 1000:.1f} | {min(new) * 1000:.1f} | {ratio:.2f} |", flush=True)
    return 0


def _in_tree(tree: Path, case: str, runs: int) -> float:
    """Measure one case in a new process that imports `sokovan` and the cases from `tree`."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    command = [sys.executable, "-c", _CHILD, case, str(runs)]
    return float(subprocess.run(command, env=environment, cwd=tree, capture_output=True, check=True).stdout)


if __name__ == "__main__":
    sys.exit(main())
