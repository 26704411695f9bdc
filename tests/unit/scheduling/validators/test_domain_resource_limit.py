"""The resource limit of a domain."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sokovan.domain.owners.policy import Scope
from sokovan.scheduling.trace import Code
from sokovan.scheduling.validators.domain_resource_limit import DomainResourceLimitValidator
from tests.unit.scheduling.validators.quota_rules import QuotaRules

RULES = QuotaRules(Scope.DOMAIN, "domain-resource-limit", Code.QUOTA_DOMAIN)


@pytest.mark.parametrize("rule", RULES.all(), ids=lambda rule: rule.__name__)
def test_the_rules_of_a_resource_limit_hold_for_a_domain(rule: Callable[[], None]) -> None:
    rule()


def test_it_is_named_for_what_it_limits() -> None:
    assert (DomainResourceLimitValidator.name, DomainResourceLimitValidator.scope) == (RULES.validator, RULES.scope)
