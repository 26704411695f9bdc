"""Machines that join with one token at once, at managers on PostgreSQL: one of them gets in."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sokovan.adapters.local.certificates import CertificateAuthority, new_key, signing_request
from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.cluster.agent_grant import AgentGrant, JoinToken, join_digest
from sokovan.entrypoints.joining.enrolment import Enrolment
from sokovan.testing.stored_cluster import StoredCluster
from sokovan.wire.join_messages import JoinDenied, JoinGranted, JoinRequest

pytestmark = pytest.mark.server
MACHINES, FOREVER_MS = 8, 1 << 42


async def test_a_token_is_used_once_however_many_machines_come_with_it(
    migrated_postgres_url: str, tmp_path: Path
) -> None:
    clock, names = SystemClock(), [f"m{number}" for number in range(MACHINES)]
    async with StoredCluster.open(migrated_postgres_url) as cluster:
        authority = CertificateAuthority(tmp_path / "tls", clock)
        managers = [Enrolment(cluster.store, authority, clock, lambda _line: None) for _ in range(2)]
        await cluster.put(JoinToken(name="t", digest=join_digest("s"), expires_ms=FOREVER_MS))
        requests = [JoinRequest(name, signing_request(new_key(), name), "t.s") for name in names]
        replies = await asyncio.gather(
            *(managers[number % 2].join(request, "10.0.0.2", "") for number, request in enumerate(requests))
        )
        assert [type(reply) for reply in replies].count(JoinGranted) == 1
        assert [reply.code for reply in replies if isinstance(reply, JoinDenied)] == ["join-refused"] * (MACHINES - 1)
        [grant] = await cluster.store.read(lambda unit: unit.catalog.all(AgentGrant))
        token = await cluster.store.read(lambda unit: unit.catalog.get(JoinToken, "t"))
        assert (token.used_by, grant.token) == (grant.name, "t")
