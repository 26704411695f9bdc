"""Usage that an ended process left is handed in by another, once and under its own name."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.entrypoints.proxies import left_usage
from sokovan.entrypoints.proxies.left_usage import hand_in_left_usage
from sokovan.entrypoints.proxies.proxy_folder import ProxyFolder, has_usage
from sokovan.proxy.accounts.token_counts import TokenCount
from sokovan.wire.serving.proxy_reports import ReportAnswer
from tests.unit.proxy.control.test_control_link import Manager, linked, running
from tests.unit.proxy.running_proxy import proxy_with, table_of


def used(root: Path) -> ProxyFolder:
    """The folder of a process that served one request."""
    folder = ProxyFolder(root)
    folder.ledger.add(key_id="k", deployment_id="d", revision=1, count=TokenCount(1, 2), failed=False, now_ms=0)
    folder.ledger.close()
    folder.save_usage()
    return folder


async def test_usage_of_an_ended_process_is_handed_in_and_that_of_a_running_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_usage, "LOOK_S", 0.01)
    runs, ended, other = used(tmp_path), used(tmp_path / "next-1"), used(tmp_path / "worker-1" / "next-2")
    ended.close()
    other.close()
    manager = Manager(answer=ReportAnswer(usage_sequence=1))
    async with (
        running(manager) as engine,
        proxy_with(table_of(version=5)) as proxy,
        linked(proxy, engine, []) as link,
    ):
        sending = asyncio.create_task(hand_in_left_usage(tmp_path, link, SystemClock()))
        await proxy.until(lambda: not has_usage(ended.root) and not has_usage(other.root))
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending

    assert [one.proxy_id for one in manager.reports] == [ended.identity.proxy_id, other.identity.proxy_id]
    assert [one.usage[0].sequence for one in manager.reports] == [1, 1]
    # A drain waits for every proxy that reports: this one must not hold it up.
    assert {one.version for one in manager.reports} == {5}
    assert has_usage(runs.root)
    runs.close()


async def test_usage_stays_while_the_manager_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_usage, "LOOK_S", 0.01)
    used(tmp_path).close()
    manager = Manager()
    async with (
        running(manager) as engine,
        proxy_with(table_of(version=5)) as proxy,
        linked(proxy, engine, []) as link,
    ):
        sending = asyncio.create_task(hand_in_left_usage(tmp_path, link, SystemClock()))
        await proxy.until(lambda: len(manager.reports) >= 2)
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending

    assert has_usage(tmp_path)
