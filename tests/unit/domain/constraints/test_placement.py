"""PlacementConstraints: bounds on what a session may demand of agents."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.constraints.affinity import AffinityTerm
from sokovan.domain.constraints.label_expression import LabelExpression, LabelOperator
from sokovan.domain.constraints.placement import PlacementConstraints, require_constraints
from sokovan.domain.constraints.taint import Toleration
from sokovan.domain.errors import InvalidSpec

NONE: dict[str, Any] = {"where": (), "tolerations": (), "affinity": (), "anti_affinity": ()}
TERM = AffinityTerm((("app", "db"),))


@pytest.mark.parametrize(
    ("field", "item", "most"),
    [
        ("where", LabelExpression("zone", LabelOperator.EXISTS), 16),
        ("tolerations", Toleration("dedicated"), 16),
        ("affinity", TERM, 8),
        ("anti_affinity", TERM, 8),
    ],
)
def test_each_kind_of_constraint_is_bounded(field: str, item: object, most: int) -> None:
    require_constraints(what="session", **{**NONE, field: (item,) * most})
    with pytest.raises(InvalidSpec, match=f"more than {most}"):
        require_constraints(what="session", **{**NONE, field: (item,) * (most + 1)})
    with pytest.raises(InvalidSpec, match=field):
        require_constraints(what="session", **{**NONE, field: ("text",)})


def test_constraints_matter_as_soon_as_there_is_one_or_a_label() -> None:
    project = ("default", "g1")
    assert not PlacementConstraints(project).matter
    assert PlacementConstraints(project, labels=(("app", "db"),)).matter
    assert PlacementConstraints(project, anti_affinity=(TERM,)).matter
