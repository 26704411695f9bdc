"""Check the rules of the tree: `python -m tools.tidy [ROOT]`."""

import argparse
import gc
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.tidy.rules import RULES, check
from tools.tidy.tree import PACKAGE, read_tree


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line per finding; returns 1 if there are any, otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m tools.tidy", description=__doc__)
    parser.add_argument(
        "root", nargs="?", type=Path, default=Path(), help="the root of the repository, default: the working directory"
    )
    root: Path = parser.parse_args(arguments).root
    if not (root / PACKAGE).is_dir():
        parser.error(f"{root.resolve()} has no {PACKAGE}; give the root of the repository")
    gc.disable()  # nothing of the syntax trees is garbage, and searching them takes most of the time
    tree = read_tree(root)
    report = check(tree)
    for finding in report.findings:
        print(finding)
    if not report.findings:
        print(f"tidy: {len(tree.files)} files, {len(RULES)} rules, no finding, {report.waived} waived")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
