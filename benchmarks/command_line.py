"""The command lines that benchmarks share: named cases, or a number of runs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any


def chosen_cases(program: str, description: str | None, cases: Iterable[str]) -> tuple[list[str], bool]:
    """The cases named by the user, or all; and whether each is to be one JSON object."""
    known = list(cases)
    summary = (description or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=summary)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(known))
    parser.add_argument("--json", action="store_true", help="one JSON object per case")
    options = parser.parse_args()
    unknown = set(options.cases) - set(known)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    return options.cases or known, options.json


def print_runs(description: str | None, measure: Callable[[int], dict[str, Any]], *, default: int) -> int:
    """Measure as many runs as the user asks for, and print the figures."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=default)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = measure(arguments.runs)
    sys.stdout.write(json.dumps(figures, indent=None if arguments.json else 2) + "\n")
    return 0
