"""The resource limit of a keypair."""

from __future__ import annotations

from sokovan.domain.policy import Scope
from sokovan.scheduling.validators.base import ResourceLimitRule


class KeypairResourceLimitValidator(ResourceLimitRule):
    """What the keypair uses and what is asked for stay within its slot limits."""

    name = "keypair-resource-limit"
    scope = Scope.KEYPAIR
