"""Tests of the labels of an agent."""

from __future__ import annotations

from types import SimpleNamespace

from sokovan.adapters.sql.repositories.agent_labels import labels_of


def test_labels_of_operators_have_precedence_over_reported_ones() -> None:
    row = SimpleNamespace(labels='{"rack": "r1", "zone": "z"}', operator_labels='{"rack": "r2", "own": ""}')
    assert labels_of(row) == {"rack": "r2", "zone": "z", "own": ""}
