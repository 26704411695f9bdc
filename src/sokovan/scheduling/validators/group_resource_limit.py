"""Validator of a group (project)'s resource limits."""

from __future__ import annotations

from sokovan.domain.owners.policy import Scope
from sokovan.scheduling.validators.base import ResourceLimitRule


class GroupResourceLimitValidator(ResourceLimitRule):
    """Refuses sessions that would exceed the slot limits of their group (project)."""

    name = "group-resource-limit"
    scope = Scope.GROUP
