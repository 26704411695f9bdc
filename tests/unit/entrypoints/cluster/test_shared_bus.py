"""The bus of a manager: alone on SQLite, with others on PostgreSQL."""

from __future__ import annotations

from contextlib import AsyncExitStack

from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.postgres.hints import PostgresHints
from sokovan.entrypoints.cluster.shared_bus import open_bus


async def test_a_manager_on_sqlite_is_alone() -> None:
    async with AsyncExitStack() as stack:
        hints, _events, _agents = open_bus("sqlite:///x.db", lambda _line: None, stack)
        assert isinstance(hints, InProcessHints)


async def test_managers_on_one_postgresql_wake_each_other(postgres_url: str) -> None:
    async with AsyncExitStack() as stack:
        one, _events, _agents = open_bus(postgres_url, lambda _line: None, stack)
        two, _events, _agents = open_bus(postgres_url, lambda _line: None, stack)
        assert isinstance(one, PostgresHints)
        assert not await two.wait(["sessions"], timeout_s=0)
        # Its connection opens soon, which counts as a hint; then hints of the other arrive.
        assert await two.wait(["sessions"], timeout_s=30)
        await two.take("sessions")
        for _ in range(300):  # until the connection of the first is open too
            await one.set("sessions")
            if await two.wait(["sessions"], timeout_s=0.1):
                return
        raise AssertionError("a hint did not reach the other manager")
