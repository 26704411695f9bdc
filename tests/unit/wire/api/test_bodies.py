"""The base of request bodies."""

from __future__ import annotations

from dataclasses import dataclass

from sokovan.wire.api.bodies import StrictBody
from tests.unit.wire.api.bodies import read_by_both, refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(StrictBody):
    """A body of our own."""

    amount: int


def test_a_strict_body_refuses_keys_that_it_does_not_have() -> None:
    assert read_by_both(Order, {"amount": 2}).amount == 2
    assert "amuont" in refused(Order, {"amount": 2, "amuont": 3})


def test_a_strict_body_has_no_room_for_anything_else() -> None:
    assert not hasattr(Order(amount=2), "__dict__")
