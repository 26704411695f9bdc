"""Validator of a keypair's resource limits."""

from __future__ import annotations

from sokovan.domain.owners.policy import Scope
from sokovan.scheduling.validators.base import ResourceLimitRule


class KeypairResourceLimitValidator(ResourceLimitRule):
    """Refuses sessions that would exceed the slot limits of their keypair."""

    name = "keypair-resource-limit"
    scope = Scope.KEYPAIR
