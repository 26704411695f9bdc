"""Command line of the generator."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.reference.pages import drifted, write

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Write the pages, or with --check only list those that are out of date (exit status 1)."""
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    check = parser.parse_args().check
    pages = drifted(ROOT) if check else write(ROOT)
    for page in pages:
        print(f"{page}: out of date, run `make docs`" if check else f"wrote {page}")
    return 1 if check and pages else 0


if __name__ == "__main__":
    sys.exit(main())
