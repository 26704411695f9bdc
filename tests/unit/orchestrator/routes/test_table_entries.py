"""The entry of a deployment in the table of proxies."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent import DATA_LABEL
from sokovan.domain.serving.deployment import DeploymentAccess
from sokovan.orchestrator.routes.table_entries import endpoint_weights, entry_of, entry_text
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "header", "cookie"), [({}, "x-session-id", ""), ({"sticky_by": "cookie:sid"}, "", "sid")]
)
async def test_an_entry_says_what_a_session_is_known_by(given: dict[str, str], header: str, cookie: str) -> None:
    async with ServedCluster.serve() as cluster:
        await cluster.deploy(**given)
        await cluster.converge()
        await cluster.proxy.report()
        entry = cluster.proxy.entries["d-chat"]
        assert (entry.sticky_header, entry.sticky_cookie) == (header, cookie)


async def test_replicas_get_requests_by_their_weights() -> None:
    async with ServedCluster.serve() as cluster:
        record = await cluster.deploy(replicas=3, weights={"0": 0, "2": 5})
        await cluster.converge()
        await cluster.proxy.report()
        assert [one.weight for one in cluster.proxy.entries["d-chat"].endpoints] == [0, 1, 5]
        replicas = await cluster.replicas()
        # Something must serve, so that a zero counts only beside another weight.
        assert endpoint_weights(record.spec, replicas[:1]) == [1]


async def test_requests_are_refused_with_the_verdict_of_the_scheduler_while_there_is_no_room() -> None:
    half = {"cpu": "6", "mem": "1Gi"}  # of 8 cpus: one fits
    async with ServedCluster.serve() as cluster:
        await cluster.deploy("first", revision=revision_of(resources=half))
        await cluster.converge()
        await cluster.deploy("second", revision=revision_of(resources=half))
        await cluster.serve_for(10, step_s=5)
        await cluster.proxy.report()
        assert cluster.proxy.entries["d-first"].refusal is None
        refusal = cluster.proxy.entries["d-second"].refusal
        assert refusal is not None
        assert refusal.code == "no-room"
        assert refusal.text.startswith("no replica can start now: ")
        await cluster.rescale(0, "first")
        await cluster.serve_for(20, step_s=5)
        await cluster.proxy.report()
        assert cluster.proxy.entries["d-second"].refusal is None
        stopped = cluster.proxy.entries["d-first"]  # no request would start a replica of it
        assert stopped.refusal is not None
        assert (stopped.holding, stopped.refusal.code) == (True, "no-replicas")


@pytest.mark.slow
async def test_a_replica_on_another_machine_is_reached_by_the_data_listener_of_its_agent() -> None:
    async with ServedCluster.serve(agents=0) as cluster:
        far = await cluster.agent("far")
        far.labels[DATA_LABEL] = "10.0.0.2:7650"
        await far.restart()
        await cluster.deploy()
        await cluster.converge()
        await cluster.proxy.report()
        [entry] = cluster.proxy.entries["d-chat"].endpoints
        [replica] = await cluster.replicas()
        assert replica.endpoint is not None
        assert (entry.agent, entry.host, entry.port) == ("far", "10.0.0.2", 7650)
        assert (entry.kernel_port, entry.ticket) == (replica.endpoint.port, f"for-{replica.endpoint.endpoint_id}")
        # After a restart its listener may be elsewhere; a label of another form is none.
        for label, host in (("[fd00::2]:7651", "fd00::2"), ("nowhere", "127.0.0.1")):
            far.labels[DATA_LABEL] = label
            await far.restart()
            await cluster.serve_for(6)
            await cluster.proxy.report()
            assert [one.host for one in cluster.proxy.entries["d-chat"].endpoints] == [host]
