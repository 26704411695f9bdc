"""Creates a virtual environment whose pip is that of this interpreter, by a link.

Installing pip takes several seconds of processor time, nearly all of the time of an image
without requirements. Tests that are not about the installer itself use this one.
"""

from __future__ import annotations

import sys
import venv
from importlib.util import find_spec
from pathlib import Path

# For the agent, in place of the one of the standard library.
LINKED_CREATOR = (sys.executable, __file__)


def create(folder: Path) -> None:
    """Create the environment; where this interpreter has no pip, with one of its own."""
    found = find_spec("pip")
    venv.create(folder, symlinks=True, with_pip=found is None)
    if found is not None and found.submodule_search_locations:
        [packages] = folder.glob("lib/python*/site-packages")
        (packages / "pip").symlink_to(found.submodule_search_locations[0])


if __name__ == "__main__":
    create(Path(sys.argv[1]))
