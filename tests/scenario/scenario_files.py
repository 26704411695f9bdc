"""The scenario files of this folder, each read once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sokovan.simulator.scenario import Scenario, read_scenarios

FOLDER = Path(__file__).parent
OWN = sorted(FOLDER.glob("*.yaml"))
VOLCANO = sorted(FOLDER.glob("volcano/*.yaml"))


@cache
def scenarios_in(path: Path) -> tuple[Scenario, ...]:
    """The scenarios of a file."""
    return tuple(read_scenarios(path.read_text(encoding="utf-8"), path.name))
