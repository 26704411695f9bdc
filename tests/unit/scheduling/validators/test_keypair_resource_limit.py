"""The resource limit of a keypair."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sokovan.domain.owners.policy import Scope
from sokovan.scheduling.trace import Code
from sokovan.scheduling.validators.keypair_resource_limit import KeypairResourceLimitValidator
from tests.unit.scheduling.validators.quota_rules import QuotaRules

RULES = QuotaRules(Scope.KEYPAIR, "keypair-resource-limit", Code.QUOTA_KEYPAIR)


@pytest.mark.parametrize("rule", RULES.all(), ids=lambda rule: rule.__name__)
def test_the_rules_of_a_resource_limit_hold_for_a_keypair(rule: Callable[[], None]) -> None:
    rule()


def test_it_is_named_for_what_it_limits() -> None:
    assert (KeypairResourceLimitValidator.name, KeypairResourceLimitValidator.scope) == (RULES.validator, RULES.scope)
