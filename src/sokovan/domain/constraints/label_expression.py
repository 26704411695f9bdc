"""LabelExpression: a condition on one label of an agent, beyond equality."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sokovan.domain.checks import require_kind, require_tuple
from sokovan.domain.constraints.labels import require_label
from sokovan.domain.errors import InvalidSpec

EXPRESSIONS_MAX = 16
VALUES_MAX = 64
_HINT = "write 'NAME in (A, B)', 'NAME not in (A, B)', 'NAME exists' or 'NAME not exists'"
_SET = re.compile(r"(\S+)\s+(in|not\s+in)\s*\(([^()]*)\)", re.ASCII)
_EXISTENCE = re.compile(r"(\S+)\s+(exists|not\s+exists)", re.ASCII)


class LabelOperator(StrEnum):
    """How a label is compared."""

    IN = "in"
    NOT_IN = "not in"
    EXISTS = "exists"
    NOT_EXISTS = "not exists"


@dataclass(frozen=True, slots=True)
class LabelExpression:
    """A condition on one label of an agent. Valid by construction.

    An agent without the label meets `not in` and `not exists`.
    """

    name: str
    operator: LabelOperator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        what = "label expression"
        require_kind(self.operator, LabelOperator, what=what, field="operator")
        require_tuple(self.values, str, what=what, field="values")
        require_label(self.name, "", what=what, field="name", hint=_HINT)
        for value in self.values:
            require_label(self.name, value, what=what, field="values", hint=_HINT)
        by_value = self.operator in {LabelOperator.IN, LabelOperator.NOT_IN}
        if by_value != bool(self.values) or len(self.values) > VALUES_MAX:
            problem = f"needs 1 to {VALUES_MAX} values" if by_value else "takes no values"
            raise InvalidSpec(what=what, field="values", value=str(self), problem=problem, hint=_HINT)

    def __str__(self) -> str:
        values = f" ({', '.join(self.values)})" if self.values else ""
        return f"{self.name} {self.operator}{values}"

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether an agent with these labels meets the condition."""
        value = labels.get(self.name)
        match self.operator:
            case LabelOperator.IN:
                return value in self.values
            case LabelOperator.NOT_IN:
                return value not in self.values
            case LabelOperator.EXISTS:
                return value is not None
            case LabelOperator.NOT_EXISTS:
                return value is None


def read_expression(text: str) -> LabelExpression:
    """Read a condition. Raises InvalidSpec.

    >>> read_expression("zone not in (a, b)")
    LabelExpression(name='zone', operator=<LabelOperator.NOT_IN: 'not in'>, values=('a', 'b'))
    >>> str(read_expression("nvme  exists"))
    'nvme exists'
    """
    found = _SET.fullmatch(text.strip()) or _EXISTENCE.fullmatch(text.strip())
    if found is None:
        problem = "is not a condition on a label"
        raise InvalidSpec(what="label expression", field="text", value=text, problem=problem, hint=_HINT)
    name, operator, *listed = found.groups()
    values = [value.strip() for value in listed[0].split(",") if value.strip()] if listed else []
    return LabelExpression(name, LabelOperator(" ".join(operator.split())), tuple(dict.fromkeys(values)))
