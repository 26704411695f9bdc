"""Scenarios of evictions: the cheapest victims, whole gangs, and no loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.simulator.expectations import differences
from sokovan.simulator.scenario import Scenario, read_scenarios
from sokovan.simulator.simulation import run

FILE = Path(__file__).parent / "evictions" / "evictions.yaml"

DOCUMENTS = [text for text in FILE.read_text(encoding="utf-8").split("\n---\n") if "\nscenario: " in f"\n{text}"]


def number(document: str) -> str:
    """The number of a scenario, with which its name begins."""
    return document.partition("scenario: ")[2].split()[0]


def read(document: str) -> Scenario:
    """The one scenario of a document."""
    [scenario] = read_scenarios(document, FILE.name)
    return scenario


@pytest.mark.parametrize("document", DOCUMENTS, ids=number)
def test_a_scenario_of_evictions_holds(document: str) -> None:
    assert differences(run(read(document))) == []


def test_the_file_holds_all_scenarios_of_evictions_time_and_loans() -> None:
    assert len(DOCUMENTS) == 12
