"""The entry of a deployment in the table of proxies."""

from __future__ import annotations

import pytest

from sokovan.domain.serving.deployment import DeploymentAccess
from sokovan.orchestrator.routes.table_entries import entry_of, entry_text
from sokovan.testing.served_cluster import ServedCluster, revision_of


@pytest.mark.slow
async def test_an_entry_says_who_may_use_it_and_how_much() -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(access=DeploymentAccess.PUBLIC, revision=revision_of(concurrency_max=3))
        await cluster.converge()
        await cluster.proxy.report()
        entry = cluster.proxy.entries["d-chat"]
        assert (entry.access, entry.policy, entry.project, entry.owner) == ("public", "prefix", "default", "default")
        assert [(one.revision, one.weight, one.concurrency_max) for one in entry.revisions] == [(1, 1000, 3)]
        assert entry_of(entry_text(entry)) == entry
