"""Contract of takers of the evicted, on all databases."""

import inspect

import pytest

from sokovan.testing.contracts.sessions import session_takers
from sokovan.testing.contracts.sessions.session_takers import CHECKS, Check
from sokovan.testing.stored_cluster import StoredCluster

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Check, cluster: StoredCluster) -> None:
    await check(cluster)


async def test_every_check_of_the_suite_is_run() -> None:
    written = {
        value
        for name, value in inspect.getmembers(session_takers, inspect.iscoroutinefunction)
        if value.__module__ == session_takers.__name__
        and list(inspect.signature(value).parameters) == ["cluster"]
        and not name.startswith("_")
    }
    assert written == set(CHECKS)
