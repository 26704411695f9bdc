"""Validator of a user's resource limits."""

from __future__ import annotations

from sokovan.domain.owners.policy import Scope
from sokovan.scheduling.validators.base import ResourceLimitRule


class UserResourceLimitValidator(ResourceLimitRule):
    """Refuses sessions that would exceed the slot limits of their user."""

    name = "user-resource-limit"
    scope = Scope.USER
