"""Check the rules of the tree: `python -m tools.tidy [ROOT]`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.tidy.rules import RULES, check
from tools.tidy.tree import PACKAGE, read_tree


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is found, one line each; 0 if nothing, 1 if something."""
    parser = argparse.ArgumentParser(prog="python -m tools.tidy", description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(), help="the repository, default: here")
    root: Path = parser.parse_args(arguments).root
    if not (root / PACKAGE).is_dir():
        parser.error(f"{root.resolve()} has no {PACKAGE}; name the repository's root")
    tree = read_tree(root)
    report = check(tree)
    for finding in report.findings:
        print(finding)
    if not report.findings:
        print(f"tidy: {len(tree.files)} files keep {len(RULES)} rules, {report.waived} findings waived")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
