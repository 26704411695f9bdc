"""The resource limit of a domain."""

from __future__ import annotations

from sokovan.domain.policy import Scope
from sokovan.scheduling.validators.base import ResourceLimitRule


class DomainResourceLimitValidator(ResourceLimitRule):
    """What the domain uses and what is asked for stay within its slot limits."""

    name = "domain-resource-limit"
    scope = Scope.DOMAIN
