"""A server whose API is served by several processes, on a real PostgreSQL database."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator

import httpx2
import pytest

from sokovan.testing.servers import PostgresServer
from tests.acceptance.cluster import Manager
from tests.acceptance.embedded import Embedded, until

WORKERS = 2
TALK = "import sys, time; print('begun', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def manager(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer, migrated_database: str
) -> Iterator[Manager]:
    """A server with two processes of its API."""
    name = f"{migrated_database}_processes"
    folder = tmp_path_factory.mktemp("processes")
    config = folder / "cluster" / "sokovan.toml"
    database = postgres_server.create_database(name, template=migrated_database)
    first = Embedded(folder).cli("server", "init", str(config.parent), "--database", database)
    assert first.returncode == 0, first.stderr
    found = Manager(folder / "manager", config, ("--workers", str(WORKERS), "--listen", "127.0.0.1:0"))
    try:
        found.start()
        yield found
    finally:
        found.quit()
        postgres_server.drop_database(name)


def process_of(manager: Manager) -> str:
    """The process that answered, as /readyz names it."""
    token = (manager.data / "token").read_text(encoding="ascii").strip()
    with httpx2.Client(trust_env=False, timeout=60) as client:  # a new connection
        answer = client.get(f"{manager.about['url']}/readyz", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["parts"]["process"])


def both(manager: Manager) -> dict[str, int]:
    """The pid of each process of the API, once both have answered."""
    seen: dict[str, int] = {}

    def answered() -> bool:
        name, _, pid = process_of(manager).partition(" of 2, pid ")
        seen[name] = int(pid)
        return len(seen) == WORKERS

    until(answered, what="both processes answer", tell=lambda: f"{seen} {manager.said[-2000:]}")
    return seen


def test_two_processes_serve_one_port_and_a_killed_one_is_replaced(manager: Manager) -> None:
    before = both(manager)
    failed: Counter[str] = Counter()
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                process_of(manager)
                failed["answered"] += 1
            except (httpx2.HTTPError, AssertionError) as error:
                failed[repr(error)] += 1

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        until(lambda: failed["answered"] > 3, what="requests are answered")
        os.kill(before["api-1"], signal.SIGKILL)
        after = until(lambda: (now := both(manager))["api-1"] != before["api-1"] and now, what="it is replaced")
    finally:
        stop.set()
        asking.join()
    assert after["api-2"] == before["api-2"]
    # The one request that the killed process had taken may be lost; its connections end with it.
    assert sum(count for what, count in failed.items() if what != "answered") <= 1, failed
