"""A request with little around it, for tests that need no store."""

from __future__ import annotations

from typing import Any

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.tenancy import Group
from sokovan.orchestrator.sessions.intake.validation_context import IntakeContext, IntakeQuery
from sokovan.testing.clock import EPOCH_MS
from tests.unit.orchestrator.sessions.little_controller import ALICE, asking

DEFAULT = ScalingGroup(ScalingGroupName("default"))


def asked(facts: dict[str, Any] | None = None, **options: Any) -> IntakeQuery:
    """Alice asks for the usual, but for what is said."""
    around: dict[str, Any] = {"now_ms": EPOCH_MS, "scaling_groups": (DEFAULT,), "group": Group("vision", "lab")}
    return IntakeQuery(asking(**options), ALICE, IntakeContext(**{**around, **(facts or {})}))
