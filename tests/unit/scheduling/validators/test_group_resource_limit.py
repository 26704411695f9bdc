"""The resource limit of a group."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sokovan.domain.owners.policy import Scope
from sokovan.scheduling.trace import Code
from sokovan.scheduling.validators.group_resource_limit import GroupResourceLimitValidator
from tests.unit.scheduling.validators.quota_rules import QuotaRules

RULES = QuotaRules(Scope.GROUP, "group-resource-limit", Code.QUOTA_GROUP)


@pytest.mark.parametrize("rule", RULES.all(), ids=lambda rule: rule.__name__)
def test_the_rules_of_a_resource_limit_hold_for_a_group(rule: Callable[[], None]) -> None:
    rule()


def test_it_is_named_for_what_it_limits() -> None:
    assert (GroupResourceLimitValidator.name, GroupResourceLimitValidator.scope) == (RULES.validator, RULES.scope)
