"""PlacementConstraints: the demands of a session on agents, besides slots."""

from __future__ import annotations

from dataclasses import dataclass

from sokovan.domain.checks import require_tuple
from sokovan.domain.constraints.affinity import TERMS_MAX, AffinityTerm
from sokovan.domain.constraints.label_expression import EXPRESSIONS_MAX, LabelExpression
from sokovan.domain.constraints.taint import TOLERATIONS_MAX, Toleration
from sokovan.domain.errors import InvalidSpec

Project = tuple[str, str]  # domain and group of an owner


@dataclass(frozen=True, slots=True)
class PlacementConstraints:
    """The constraints of a session, and its labels.

    By the labels, the affinity of other sessions of the project names it.
    """

    project: Project
    labels: tuple[tuple[str, str], ...] = ()
    where: tuple[LabelExpression, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()

    @property
    def matter(self) -> bool:
        """Whether placement may depend on them; a session without any has None instead."""
        return bool(self.labels or self.where or self.tolerations or self.affinity or self.anti_affinity)


def require_constraints(
    *,
    what: str,
    where: tuple[LabelExpression, ...],
    tolerations: tuple[Toleration, ...],
    affinity: tuple[AffinityTerm, ...],
    anti_affinity: tuple[AffinityTerm, ...],
) -> None:
    """Require tuples of valid items, not too many of them. Raises InvalidSpec."""
    for field, values, kind, most in (
        ("where", where, LabelExpression, EXPRESSIONS_MAX),
        ("tolerations", tolerations, Toleration, TOLERATIONS_MAX),
        ("affinity", affinity, AffinityTerm, TERMS_MAX),
        ("anti_affinity", anti_affinity, AffinityTerm, TERMS_MAX),
    ):
        require_tuple(values, kind, what=what, field=field)
        if len(values) > most:
            raise InvalidSpec(what=what, field=field, value=len(values), problem=f"has more than {most} entries")
