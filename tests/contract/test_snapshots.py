"""Contract of the snapshot source, on all databases."""

import inspect

import pytest

from sokovan.testing.contracts import snapshots
from sokovan.testing.contracts.snapshots import CHECKS, Check
from sokovan.testing.stored_cluster import StoredCluster


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Check, fresh_cluster: StoredCluster) -> None:
    await check(fresh_cluster)


async def test_every_check_of_the_suite_is_run() -> None:
    written = {
        value
        for name, value in inspect.getmembers(snapshots, inspect.iscoroutinefunction)
        if value.__module__ == snapshots.__name__
        and list(inspect.signature(value).parameters) == ["cluster"]
        and not name.startswith("_")
    }
    assert written == set(CHECKS)
