"""The command line that benchmarks with named cases share."""

from __future__ import annotations

import argparse
from collections.abc import Iterable


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
