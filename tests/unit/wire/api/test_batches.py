"""Outcomes of batches on the wire."""

from __future__ import annotations

from sokovan.wire.api.batches import BatchItemView, BatchView
from sokovan.wire.api.system import ProblemView
from tests.unit.wire.api.bodies import read_by_both, written


def test_outcomes_go_over_the_wire_and_come_back_the_same() -> None:
    problem = ProblemView(type="urn:x", title="Conflict", status=409, detail="is taken", code="name-taken")
    items = [BatchItemView(session="s-1", name="one", fresh=True), BatchItemView(problem=problem)]
    view = BatchView(items=items, accepted=1, refused=1)
    assert read_by_both(BatchView, written(view)) == view
