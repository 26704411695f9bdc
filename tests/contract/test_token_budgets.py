"""Contract of leases of token budgets, on all databases."""

import inspect

import pytest

from sokovan.testing.contracts.repositories import token_budgets
from sokovan.testing.contracts.repositories.token_budgets import CHECKS, Check
from sokovan.testing.stored_cluster import StoredCluster

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Check, cluster: StoredCluster) -> None:
    await check(cluster)


async def test_every_check_of_the_suite_is_run() -> None:
    written = {
        value
        for name, value in inspect.getmembers(token_budgets, inspect.iscoroutinefunction)
        if value.__module__ == token_budgets.__name__
        and list(inspect.signature(value).parameters) == ["cluster"]
        and not name.startswith("_")
    }
    assert written == set(CHECKS)
