"""Values as plain JSON and back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import pytest

from sokovan.domain.ids import AgentId
from sokovan.domain.plain_values import InvalidDocument, from_plain, to_plain
from sokovan.domain.slots import ResourceSlot, SlotLimits


class Colour(StrEnum):
    RED = "red"


class Rank(IntEnum):
    LOW = 1


class Pair(NamedTuple):
    left: str
    right: int = 0


@dataclass(frozen=True)
class Part:
    size: int


@dataclass(frozen=True)
class Whole:
    name: AgentId
    colour: Colour
    parts: tuple[Part, ...] = ()
    pair: Pair | None = None
    both: tuple[str, int] = ("", 0)
    labels: Mapping[str, int] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    tier: int | str | None = None
    slots: ResourceSlot = field(default_factory=ResourceSlot)
    limits: SlotLimits = field(default_factory=SlotLimits)
    sure: bool = False
    anything: object = None


RICH = Whole(
    name=AgentId("a1"),
    colour=Colour.RED,
    parts=(Part(1), Part(2)),
    pair=Pair("x", 3),
    both=("y", 4),
    labels={"b": 2, "a": 1},
    tags=frozenset({"t2", "t1"}),
    tier="rack",
    slots=ResourceSlot({"cpu": 5}),
    limits=SlotLimits({"mem": 0}),
    sure=True,
    anything={"deep": [1, "x", None]},
)


def test_a_value_survives_the_way_through_json() -> None:
    assert from_plain(Whole, json.loads(json.dumps(to_plain(RICH))), key="whole") == RICH


def test_what_is_not_given_has_its_default() -> None:
    assert from_plain(Whole, {"name": "a1", "colour": "red"}, key="whole") == Whole(AgentId("a1"), Colour.RED)


def test_sets_are_listed_in_order_so_that_equal_values_have_equal_texts() -> None:
    assert to_plain(RICH)["tags"] == ["t1", "t2"]
    assert to_plain({Rank.LOW: Colour.RED}) == {"1": "red"}


@pytest.mark.parametrize(("value", "kind"), [(3, int), ("rack", str), (None, type(None))])
def test_one_of_several_kinds_is_chosen_by_what_is_there(value: Any, kind: type) -> None:
    found = from_plain(Whole, {"name": "a1", "colour": "red", "tier": value}, key="whole")
    assert type(found.tier) is kind


def test_a_named_tuple_may_leave_out_what_has_a_default() -> None:
    assert from_plain(Pair, {"left": "x"}, key="pair") == Pair("x", 0)


GOOD: dict[str, Any] = {"name": "a1", "colour": "red"}


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ([], "whole"),
        ({"colour": "red"}, "whole"),
        ({**GOOD, "unknown": 1}, "whole"),
        ({**GOOD, "colour": "blue"}, "whole.colour"),
        ({**GOOD, "name": 5}, "whole.name"),
        ({**GOOD, "parts": [{"size": 1}, {"size": "x"}]}, "whole.parts[1].size"),
        ({**GOOD, "parts": {"size": 1}}, "whole.parts"),
        ({**GOOD, "both": ["x"]}, "whole.both"),
        ({**GOOD, "labels": [1]}, "whole.labels"),
        ({**GOOD, "labels": {"a": "x"}}, "whole.labels.a"),
        ({**GOOD, "tags": [1]}, "whole.tags[]"),
        ({**GOOD, "slots": {"cpu": -1}}, "whole.slots"),
        ({**GOOD, "slots": 3}, "whole.slots"),
        ({**GOOD, "sure": 1}, "whole.sure"),
        ({**GOOD, "tier": True}, "whole.tier"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(document: Any, place: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        from_plain(Whole, document, key="whole")
    assert caught.value.key == place


def test_true_is_no_number() -> None:
    with pytest.raises(InvalidDocument):
        from_plain(Part, {"size": True}, key="part")


def test_a_value_that_refuses_itself_says_why() -> None:
    with pytest.raises(InvalidDocument, match="not a valid Rank"):
        from_plain(Rank, 7, key="rank")
