"""The resource limit of a user."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sokovan.domain.owners.policy import Scope
from sokovan.scheduling.trace import Code
from sokovan.scheduling.validators.user_resource_limit import UserResourceLimitValidator
from tests.unit.scheduling.validators.quota_rules import QuotaRules

RULES = QuotaRules(Scope.USER, "user-resource-limit", Code.QUOTA_USER)


@pytest.mark.parametrize("rule", RULES.all(), ids=lambda rule: rule.__name__)
def test_the_rules_of_a_resource_limit_hold_for_a_user(rule: Callable[[], None]) -> None:
    rule()


def test_it_is_named_for_what_it_limits() -> None:
    assert (UserResourceLimitValidator.name, UserResourceLimitValidator.scope) == (RULES.validator, RULES.scope)
