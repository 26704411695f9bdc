"""Uploads of sessions that have not ended are kept."""

from __future__ import annotations

import pytest

from sokovan.entrypoints import upload_collection
from sokovan.entrypoints.upload_collection import used_uploads
from sokovan.testing.stored_cluster import StoredCluster


async def test_the_uploads_of_live_sessions_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_collection, "_PAGE", 2)
    async with StoredCluster.open() as cluster:
        for name in ("a", "b", "c"):
            digest = name * 64
            await cluster.submit(f"s-{name}", upload=digest)
        await cluster.submit("s-none")
        found = await used_uploads(cluster.store)
    assert {reference.partition("/")[2] for reference in found} == {"a" * 64, "b" * 64, "c" * 64}
