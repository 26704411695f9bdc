"""Validator of a domain's resource limits."""

from __future__ import annotations

from sokovan.domain.owners.policy import Scope
from sokovan.scheduling.validators.base import ResourceLimitRule


class DomainResourceLimitValidator(ResourceLimitRule):
    """Refuses sessions that would exceed the slot limits of their domain."""

    name = "domain-resource-limit"
    scope = Scope.DOMAIN
