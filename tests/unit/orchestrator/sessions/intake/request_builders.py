"""Intake queries for tests without a store."""

from __future__ import annotations

from typing import Any

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ScalingGroupName
from sokovan.domain.owners.tenancy import Group
from sokovan.orchestrator.sessions.intake.validation_context import IntakeContext, IntakeQuery
from sokovan.testing.clock import EPOCH_MS
from tests.unit.orchestrator.sessions.controller_harness import ALICE, session_request

DEFAULT = ScalingGroup(ScalingGroupName("default"))


def query_for(facts: dict[str, Any] | None = None, **options: Any) -> IntakeQuery:
    """Alice's default request with these options and this context."""
    around: dict[str, Any] = {"now_ms": EPOCH_MS, "scaling_groups": (DEFAULT,), "group": Group("vision", "lab")}
    context = IntakeContext(**{**around, **(facts or {})})
    return IntakeQuery(session_request(**options), ALICE, context, scaling_group=DEFAULT)
