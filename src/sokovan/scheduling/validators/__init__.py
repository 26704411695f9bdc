"""Validators refuse sessions that may not be scheduled now."""

from sokovan.scheduling.validators.array_limit import ArrayLimitValidator
from sokovan.scheduling.validators.base import ValidatorRule
from sokovan.scheduling.validators.concurrency import ConcurrencyValidator
from sokovan.scheduling.validators.dependencies import DependenciesValidator
from sokovan.scheduling.validators.domain_resource_limit import DomainResourceLimitValidator
from sokovan.scheduling.validators.group_resource_limit import GroupResourceLimitValidator
from sokovan.scheduling.validators.keypair_resource_limit import KeypairResourceLimitValidator
from sokovan.scheduling.validators.pending_session_count_limit import PendingSessionCountLimitValidator
from sokovan.scheduling.validators.pending_session_resource_limit import PendingSessionResourceLimitValidator
from sokovan.scheduling.validators.reserved_batch_session import ReservedBatchSessionValidator
from sokovan.scheduling.validators.user_resource_limit import UserResourceLimitValidator

BUILT_IN_VALIDATORS: tuple[type[ValidatorRule], ...] = (
    KeypairResourceLimitValidator,
    GroupResourceLimitValidator,
    DomainResourceLimitValidator,
    UserResourceLimitValidator,
    ConcurrencyValidator,
    DependenciesValidator,
    PendingSessionCountLimitValidator,
    PendingSessionResourceLimitValidator,
    ReservedBatchSessionValidator,
)
# Rules of every profile: what a request asks for does not depend on the policy of a scaling group.
MANDATORY_VALIDATORS: tuple[type[ValidatorRule], ...] = (ArrayLimitValidator,)
