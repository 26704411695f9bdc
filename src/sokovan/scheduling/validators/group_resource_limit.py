"""The resource limit of a group (project)."""

from __future__ import annotations

from sokovan.domain.policy import Scope
from sokovan.scheduling.validators.base import ResourceLimitRule


class GroupResourceLimitValidator(ResourceLimitRule):
    """What the group (project) uses and what is asked for stay within its slot limits."""

    name = "group-resource-limit"
    scope = Scope.GROUP
