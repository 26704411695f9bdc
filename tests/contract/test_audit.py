"""Contract of the audit trail, on all databases."""

import inspect

import pytest

from sokovan.testing.contracts.repositories import audit
from sokovan.testing.contracts.repositories.audit import CHECKS, Check
from sokovan.testing.stored_cluster import StoredCluster

# As the owner of the tables: a coordinator may not change entries.
FORGES = True


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Check, fresh_cluster: StoredCluster) -> None:
    await check(fresh_cluster)


async def test_every_check_of_the_suite_is_run() -> None:
    written = {
        value
        for name, value in inspect.getmembers(audit, inspect.iscoroutinefunction)
        if value.__module__ == audit.__name__
        and list(inspect.signature(value).parameters) == ["cluster"]
        and not name.startswith("_")
    }
    assert written == set(CHECKS)
