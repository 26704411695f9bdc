"""The page of errors, from an interpreter that has loaded the whole package in one order.

The page lists what subclasses an error has, which depends on what was imported
before, and in which order: a test run has imported more than `make docs` has.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import sokovan
from tools.reference import errors

ROOT = Path(__file__).parents[2]


def errors_page() -> str:
    """The page of all error codes of the package, the same whoever asks."""
    return _rendered()


@cache
def _rendered() -> str:
    command = [sys.executable, "-m", "tools.reference.fresh"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode("utf-8")


def main() -> None:
    """Print the page, with every module of the package loaded."""
    for module in walk_packages(sokovan.__path__, "sokovan."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    sys.stdout.buffer.write(errors.page().encode("utf-8"))


if __name__ == "__main__":
    main()
