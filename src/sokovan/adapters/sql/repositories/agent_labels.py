"""Labels of an agent: those it reported and those that operators gave it."""

from __future__ import annotations

from typing import Any

import msgspec


def labels_of(row: Any) -> dict[str, str]:
    """The labels of an agent's row; those of operators have precedence."""
    labels: dict[str, str] = {**msgspec.json.decode(row.labels), **msgspec.json.decode(row.operator_labels)}
    return labels
