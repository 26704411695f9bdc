"""Job arrays on the wire."""

from __future__ import annotations

from sokovan.wire.api.arrays import ArrayPage, ArrayView
from tests.unit.sdk.views import ARRAY
from tests.unit.wire.api.bodies import read_by_both, written


def test_arrays_go_over_the_wire_and_come_back_the_same() -> None:
    assert read_by_both(ArrayView, written(ARRAY)) == ARRAY
    page = ArrayPage(items=[ARRAY], next="c1")
    assert read_by_both(ArrayPage, written(page)) == page
