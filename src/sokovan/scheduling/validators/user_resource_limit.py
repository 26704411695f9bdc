"""The resource limit of a user."""

from __future__ import annotations

from sokovan.domain.policy import Scope
from sokovan.scheduling.validators.base import ResourceLimitRule


class UserResourceLimitValidator(ResourceLimitRule):
    """What the user uses and what is asked for stay within its slot limits."""

    name = "user-resource-limit"
    scope = Scope.USER
