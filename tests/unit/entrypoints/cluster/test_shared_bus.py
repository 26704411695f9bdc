"""The bus of a manager: alone on SQLite, with others by PostgreSQL or by Valkey."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from sokovan.adapters.broadcast.hints import BroadcastHints
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.random_source import secret_text
from sokovan.entrypoints.cluster.shared_bus import open_bus
from sokovan.entrypoints.settings.setting_sections import ValkeySettings


async def test_a_manager_on_sqlite_is_alone() -> None:
    async with AsyncExitStack() as stack:
        hints, _events, _agents = open_bus("sqlite:///x.db", ValkeySettings(), lambda _line: None, stack)
        assert isinstance(hints, InProcessHints)


@pytest.mark.parametrize("by", ["postgres", "valkey"])
async def test_managers_on_one_postgresql_wake_each_other(by: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(f"{by}_url")
    # Valkey is used whether the database can be reached or not.
    database = url if by == "postgres" else "postgresql://x@127.0.0.1:1/none"
    valkey = ValkeySettings(url=url, prefix=secret_text(8)) if by == "valkey" else ValkeySettings()
    async with AsyncExitStack() as stack:
        one, _events, _agents = open_bus(database, valkey, lambda _line: None, stack)
        two, _events, _agents = open_bus(database, valkey, lambda _line: None, stack)
        assert isinstance(one, BroadcastHints)
        assert not await two.wait(["sessions"], timeout_s=0)
        # Its connection opens soon, which counts as a hint; then hints of the other arrive.
        assert await two.wait(["sessions"], timeout_s=120)
        await two.take("sessions")
        for _ in range(1200):  # until the connection of the first is open too
            await one.set("sessions")
            if await two.wait(["sessions"], timeout_s=0.1):
                return
        raise AssertionError("a hint did not reach the other manager")
