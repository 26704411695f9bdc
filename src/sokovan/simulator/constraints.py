"""Reads the placement constraints of a session in a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from sokovan.domain.constraints.affinity import read_affinity
from sokovan.domain.constraints.label_expression import read_expression
from sokovan.domain.constraints.placement import PlacementConstraints
from sokovan.domain.constraints.taint import changed_taints, read_taint, read_toleration
from sokovan.domain.owners.tenancy import Owner
from sokovan.simulator.documents import ScenarioValue

R = TypeVar("R")


def read_constraints(given: Mapping[str, ScenarioValue], owner: Owner) -> PlacementConstraints | None:
    """The constraints of a session, for each of its kernels; None without any."""

    def texts(key: str, read: Callable[[str], R]) -> tuple[R, ...]:
        return tuple(read(item.text()) for item in given[key].sequence()) if key in given else ()

    labels = {name: value.text() for name, value in given["labels"].mapping().items()} if "labels" in given else {}
    constraints = PlacementConstraints(
        project=(owner.domain, owner.group),
        labels=tuple(sorted(labels.items())),
        where=texts("where", read_expression),
        tolerations=texts("tolerations", read_toleration),
        affinity=texts("affinity", read_affinity),
        anti_affinity=texts("anti_affinity", read_affinity),
    )
    return constraints if constraints.matter else None


def read_taints(given: Mapping[str, ScenarioValue]) -> dict[str, str]:
    """The taints of an agent, as the labels that hold them."""
    texts = given["taints"].sequence() if "taints" in given else ()
    return changed_taints({}, [read_taint(item.text()) for item in texts], ())
