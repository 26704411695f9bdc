"""Parts of each process with an API; the whole runs in tests/acceptance."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sokovan.adapters.prometheus import PrometheusTelemetry
from sokovan.entrypoints.embedded.background_tasks import ComponentEnded
from sokovan.entrypoints.embedded.data_folder import DataFolder
from sokovan.entrypoints.settings.server_settings import ServerSettings
from sokovan.entrypoints.settings.setting_sources import sources_of
from sokovan.entrypoints.workers.api_components import limits_of_api, report_writes, started_settings, until_stopped


async def test_a_component_that_ends_by_itself_ends_the_server_with_its_reason() -> None:
    manager: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    api: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(until_stopped(asyncio.Event(), {"the manager": manager, "the API": api}))
    manager.set_exception(ZeroDivisionError("inside"))
    with pytest.raises(ComponentEnded, match="the manager has ended: ZeroDivisionError"):
        await waiting


async def test_a_signal_ends_the_server_without_a_reason() -> None:
    stopped = asyncio.Event()
    stopped.set()
    await until_stopped(stopped, {"the API": asyncio.get_running_loop().create_future()})


def test_writes_that_fail_are_told_in_the_log_the_terminal_and_the_metrics() -> None:
    told: list[str] = []
    telemetry = PrometheusTelemetry()
    report_writes("no space", log=told.append, echo=told.append, telemetry=telemetry)
    assert told == ["the store cannot be written: no space; it is tried again"] * 2
    assert b"sokovan_store_writable 0.0" in telemetry.exposition()


def test_processes_of_one_folder_have_the_same_secrets(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    one, other = (limits_of_api(ServerSettings(), folder) for _ in range(2))
    assert (one.pepper, one.proxy_token, one.digest_key) == (other.pepper, other.proxy_token, other.digest_key)


async def test_the_settings_of_a_file_are_read_without_a_cache(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    sources = sources_of(None, folder.root, environment={}, assignments=["api.workers=3"])
    async with AsyncExitStack() as stack:
        live = await started_settings(sources, folder, stack, cache="settings-api-1.json")
        assert live.current.api.workers == 3
    assert not (folder.root / "settings-api-1.json").exists()
