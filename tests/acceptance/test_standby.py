"""Two managers on a PostgreSQL server that fails over to its standby."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sokovan.testing.servers import PostgresServer, StandbyServer
from tests.acceptance.cluster import Manager, TwoManagers
from tests.acceptance.counted import counted
from tests.acceptance.embedded import until
from tests.acceptance.machines import LITTLE, join_words, link, machine
from tests.kernels import kill, relatives

SLEEP = (sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)")


def linked(manager: Manager) -> bool:
    """Whether the agent is linked to a manager."""
    return link(manager, "a1") == (True, "alive")


@pytest.fixture
def servers() -> Iterator[tuple[PostgresServer, StandbyServer]]:
    """A primary, and a standby that every commit waits for."""
    with PostgresServer() as primary, StandbyServer(primary) as standby:
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.execute("SELECT pg_reload_conf()")
        yield primary, standby


def test_managers_go_on_at_a_standby_that_was_promoted(
    servers: tuple[PostgresServer, StandbyServer], tmp_path: Path
) -> None:
    primary, standby = servers
    before, _, after = primary.create_database("two").rpartition("@")
    both = f"{before}@127.0.0.1:{standby.port},{after}?target_session_attrs=read-write"
    two = TwoManagers(tmp_path / "cluster", both)
    first, second = two.managers
    with machine(tmp_path / "a1") as near:
        try:
            two.init()
            assert first.cli("server", "migrate").returncode == 0
            for manager in two.managers:
                manager.start("--set", "scheduler.lease_ms=1500")
            near.run(*join_words(first), "--name", "a1")
            for manager in two.managers:
                until(partial(linked, manager), what="the agent is linked", tell=lambda: near.said)
            running = first.submit(*SLEEP)["id"]
            first.says(running, "begun")
            placed = [counted(second, tmp_path / f"placed-{number}") for number in range(4)]
            primary.kill()
            standby.promote()
            for manager in two.managers:
                done = manager.cli("run", *LITTLE, "--", "echo", "at the standby")
                assert (done.returncode, done.stdout) == (0, "at the standby\n"), done.stderr + two.said
            assert first.session(running)["status"] == "running"
            for one in placed:
                first.says(one.id, "up")
                one.end()
            assert [first.settles(one.id)["result"] for one in placed] == ["success"] * len(placed)
            assert [len(one.starts) for one in placed] == [1] * len(placed)
            first.end(running, forced=True)
            second.settles(running)
            second.audit()
        finally:
            two.quit()
            for pid in relatives(near.kernels):
                kill(pid)
