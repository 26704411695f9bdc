"""A server whose API is served by several processes, on a real PostgreSQL database."""

from __future__ import annotations

import os
import signal
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from sokovan.testing.servers import PostgresServer
from tests.acceptance.cluster import Manager, free_port
from tests.acceptance.embedded import Embedded, until
from tests.acceptance.machines import join_words, link, machine

WORKERS = 2
REMOTE_HOST = "127.0.0.2"
TALK = "import time; print('begun', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def manager(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer, migrated_database: str
) -> Iterator[Manager]:
    """A server with two processes of its API, which serve other machines as well."""
    name = f"{migrated_database}_processes"
    folder = tmp_path_factory.mktemp("processes")
    config = folder / "cluster" / "sokovan.toml"
    database = postgres_server.create_database(name, template=migrated_database)
    first = Embedded(folder).cli("server", "init", str(config.parent), "--database", database)
    assert first.returncode == 0, first.stderr
    options = ("--workers", str(WORKERS), "--listen", f"127.0.0.1:{free_port('127.0.0.1')}")
    remote = f"{REMOTE_HOST}:{free_port(REMOTE_HOST)}"
    (folder / "remote").write_text(remote, encoding="ascii")
    found = Manager(folder / "manager", config, (*options, "--set", f"api.listen={remote}"))
    try:
        found.start()
        yield found
    finally:
        found.quit()
        postgres_server.drop_database(name)


def fresh(manager: Manager, path: str) -> httpx2.Response:
    """An answer over a connection of its own, which any of the processes may take."""
    token = (manager.data / "token").read_text(encoding="ascii").strip()
    with httpx2.Client(trust_env=False, timeout=60) as client:
        return client.get(f"{manager.about['url']}{path}", headers={"Authorization": f"Bearer {token}"})


def process_of(manager: Manager) -> str:
    """The process that answered, as /readyz names it; empty if the server is not ready."""
    answer = fresh(manager, "/readyz")
    return str(answer.json()["parts"]["process"]) if answer.status_code == 200 else ""


def process_over_tls(manager: Manager) -> str:
    """The process that answered a client of another machine."""
    token = (manager.data / "token").read_text(encoding="ascii").strip()
    address = (manager.folder.parent / "remote").read_text(encoding="ascii")
    trusted = ssl.create_default_context(cafile=str(manager.config.parent / "keys" / "tls" / "authority.pem"))
    with httpx2.Client(trust_env=False, timeout=60, verify=trusted) as client:
        answer = client.get(f"https://{address}/readyz", headers={"Authorization": f"Bearer {token}"})
    return str(answer.json()["parts"]["process"]) if answer.status_code == 200 else ""


def manager_process(manager: Manager) -> int:
    """The process with the links, a child of the first; 0 for a moment if there is none."""
    children = Path(f"/proc/{manager.pid}/task/{manager.pid}/children").read_text(encoding="ascii").split()
    others = set(map(int, children)) - set(both(manager).values())
    return others.pop() if others else 0


def both(manager: Manager, process: Callable[[Manager], str] = process_of) -> dict[str, int]:
    """The pid of each process of the API, once both have answered."""
    seen: dict[str, int] = {}

    def answered() -> bool:
        name, _, pid = process(manager).partition(" of 2, pid ")
        if name:
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
                failed["answered" if process_of(manager) else "not ready"] += 1
            except httpx2.HTTPError as error:
                failed[repr(error)] += 1

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        until(lambda: failed["answered"] > 3, what="requests are answered")
        os.kill(before["api-1"], signal.SIGKILL)
        until(lambda: both(manager)["api-1"] != before["api-1"], what="it is replaced")
        after = both(manager)
    finally:
        stop.set()
        asking.join()
    assert after["api-2"] == before["api-2"]
    # The one request that the killed process had taken may be lost; its connections end with it.
    assert sum(count for what, count in failed.items() if what != "answered") <= 1, failed


def test_each_process_serves_other_machines_over_tls_and_no_stranger(manager: Manager) -> None:
    assert both(manager, process_over_tls) == both(manager)
    address = (manager.folder.parent / "remote").read_text(encoding="ascii")
    with (
        httpx2.Client(trust_env=False, timeout=60) as stranger,
        pytest.raises(httpx2.ConnectError, match="certificate"),
    ):
        stranger.get(f"https://{address}/readyz")


def test_logs_and_commands_reach_agents_through_each_process(manager: Manager, tmp_path: Path) -> None:
    both(manager)
    with machine(tmp_path / "a1") as one:
        one.run(*join_words(manager), "--name", "a1")
        until(lambda: link(manager, "a1") == (True, "alive"), what="the agent is linked", tell=lambda: one.said)
        manager.python(TALK, name="talk")
        manager.says("talk", "begun")
        # Each command is a new connection: of six, both processes serve some.
        for number in range(6):
            done = manager.cli("exec", "talk", "--", "echo", str(number))
            assert (done.returncode, done.stdout) == (0, f"{number}\n"), done.stderr
            assert manager.cli("logs", "talk").stdout == "begun\n"
        refused = manager.cli("exec", "talk", "--", "/no/such/program")
        assert refused.returncode != 0
        manager.end("talk", forced=True)
        manager.settles("talk")


def test_metrics_of_all_processes_are_one_answer(manager: Manager) -> None:
    both(manager)
    text = fresh(manager, "/metrics").text
    for process in ("manager", "api-1", "api-2"):
        assert f'sokovan_api_failures_total{{process="{process}"}} 0.0' in text
    assert text.count("# TYPE sokovan_api_failures_total counter") == 1


def test_a_killed_manager_process_is_replaced_while_the_api_answers(manager: Manager) -> None:
    before = manager_process(manager)
    os.kill(before, signal.SIGKILL)
    # The database is asked, not the manager.
    assert fresh(manager, "/api/v1/sessions").status_code == 200
    until(lambda: manager_process(manager) not in {0, before}, what="it is replaced")
    until(lambda: process_of(manager), what="the server is ready again")


def test_sigterm_ends_every_process(manager: Manager) -> None:
    processes = [*both(manager).values(), manager_process(manager)]
    assert manager.stop() == 0
    assert not [pid for pid in processes if Path(f"/proc/{pid}").exists()]
    assert not list((manager.data / "processes").iterdir())
