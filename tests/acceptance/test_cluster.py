"""Two managers on one PostgreSQL database, and two machines that joined them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sokovan.testing.servers import PostgresServer
from tests.acceptance.cluster import Manager, TwoManagers, freeze, thaw
from tests.acceptance.embedded import Embedded, until
from tests.acceptance.machines import LITTLE, Machine, join_words, link, machine
from tests.kernels import kill, relatives

LEASE_MS = 1500
SLEEP = (sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)")


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer, worker_number: int
) -> Iterator[TwoManagers]:
    """Both managers, ready, on a database of their own."""
    name = f"cluster_{worker_number}"
    postgres_server.drop_database(name)
    two = TwoManagers(tmp_path_factory.mktemp("cluster"), postgres_server.create_database(name))
    try:
        two.init()
        set_up(two)
        yield two
    finally:
        two.quit()
        postgres_server.drop_database(name)


def set_up(two: TwoManagers) -> None:
    """Migrate and start, as the how-to says; each refusal on the way has its exit code."""
    first, second = two.managers
    early = first.cli("server", "run")
    assert (early.returncode, "sokovan server migrate" in early.stderr) == (5, True), early.stderr
    checked = first.cli("server", "check")
    assert (checked.returncode, "schema" in checked.stderr) == (1, True), checked.stderr
    assert first.cli("server", "migrate").returncode == 0
    assert first.cli("server", "status").returncode == 1
    for manager in (first, second):
        manager.start("--set", f"scheduler.lease_ms={LEASE_MS}")
    checked = first.cli("server", "check", "--set", f"cluster.managers=127.0.0.2:{two.ports[0]}")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "answers agents with the authority of this cluster" in checked.stdout


@pytest.fixture(scope="module")
def machines(cluster: TwoManagers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Machine, Machine]]:
    """Two machines that joined at one manager, and are linked to both."""
    first, second = cluster.managers
    with ExitStack() as stack:
        made = [stack.enter_context(machine(tmp_path_factory.mktemp("machine") / name)) for name in ("a1", "a2")]
        for number, one in enumerate(made):
            one.run(*join_words(cluster.managers[number]), "--name", one.folder.name)
        for manager in (first, second):
            for one in made:
                linked(manager, one)
        yield made[0], made[1]
        for one in made:
            for pid in relatives(one.kernels):
                kill(pid)


def linked(manager: Manager, one: Machine) -> None:
    """Wait until the agent of a machine is linked to a manager."""
    until(lambda: link(manager, one.folder.name) == (True, "alive"), what="it is linked", tell=lambda: one.said)


def cut_off(manager: Manager, one: Machine) -> None:
    """Wait until it is not."""
    until(lambda: not link(manager, one.folder.name)[0], what="its link is closed", tell=lambda: one.said)


def works_at(manager: Manager, text: str) -> None:
    """Run a command through this manager: submission, placement, output and end."""
    done = manager.cli("run", *LITTLE, "--", "echo", text)
    assert (done.returncode, done.stdout) == (0, f"{text}\n"), done.stderr


@pytest.mark.usefixtures("machines")
def test_every_manager_takes_sessions_and_shows_their_output(cluster: TwoManagers) -> None:
    first, second = cluster.managers
    works_at(first, "one")
    works_at(second, "two")
    session = first.submit(*SLEEP)["id"]
    second.says(session, "begun")
    done = second.cli("exec", session, "--", "echo", "inside")
    assert (done.returncode, done.stdout) == (0, "inside\n"), done.stderr
    second.end(session, forced=True)
    first.settles(session)
    leaders = {lease["coordinator"] for lease in first.cli_json("server", "status")["leases"]}
    assert leaders == {"sessions", "deployments", "routes"}


@pytest.mark.usefixtures("machines")
def test_a_client_of_another_machine_uses_the_api_over_tls(cluster: TwoManagers, tmp_path: Path) -> None:
    first = cluster.managers[0]
    client, url = Embedded(tmp_path), f"https://{cluster.remote}"
    authority = str(cluster.config.parent / "keys" / "tls" / "authority.pem")
    added = client.cli("context", "add", "lab", url, "--ca", authority, "--token-file", str(first.data / "token"))
    assert added.returncode == 0, added.stderr
    done = client.cli("run", "--name", "far", *LITTLE, "--", "echo", "from far")
    assert (done.returncode, done.stdout) == (0, "from far\n"), done.stderr
    session = first.submit(*SLEEP)["id"]
    first.says(session, "begun")
    done = client.cli("exec", session, "--", "echo", "inside")
    assert (done.returncode, done.stdout) == (0, "inside\n"), done.stderr
    first.end(session, forced=True)
    first.settles(session)
    # Another authority is not trusted, and no key is sent without encryption.
    stranger = {"SOKOVAN_URL": url, "SOKOVAN_TOKEN": (first.data / "token").read_text(encoding="ascii").strip()}
    (tmp_path / "other").mkdir()
    refused = Embedded(tmp_path / "other").cli("ps", **stranger)
    assert (refused.returncode, "certificate verify failed" in refused.stderr) == (7, True), refused.stderr


def test_another_manager_goes_on_when_the_leader_is_killed(
    cluster: TwoManagers, machines: tuple[Machine, Machine]
) -> None:
    leader = cluster.led()
    other = cluster.other(leader)
    running = other.submit(*SLEEP)["id"]
    other.says(running, "begun")
    leader.kill()
    works_at(other, "after the kill")
    assert cluster.led() is other
    assert other.session(running)["status"] == "running"
    # The killed one returns, and agents link to it again.
    leader.start("--set", f"scheduler.lease_ms={LEASE_MS}")
    for one in machines:
        linked(leader, one)
    works_at(leader, "through the one that returned")
    other.end(running, forced=True)
    other.settles(running)
    other.audit()


@pytest.mark.usefixtures("machines")
def test_a_leader_that_was_frozen_does_no_harm_when_it_goes_on(cluster: TwoManagers) -> None:
    leader = cluster.led()
    other, before = cluster.other(leader), cluster.epoch
    freeze(leader.pid)
    try:
        works_at(other, "while the leader hangs")
    finally:
        thaw(leader.pid)
    works_at(leader, "through the former leader")
    assert cluster.epoch > before
    other.audit()


@pytest.mark.usefixtures("machines")
def test_managers_go_on_after_the_database_was_killed(cluster: TwoManagers, postgres_server: PostgresServer) -> None:
    if postgres_server.is_given:
        pytest.skip("the server of the environment is not ours to kill")
    first, second = cluster.managers
    running = first.submit(*SLEEP)["id"]
    first.says(running, "begun")
    postgres_server.kill()
    postgres_server.start()
    works_at(first, "after the restart")
    works_at(second, "and there")
    assert first.session(running)["status"] == "running"
    first.end(running, forced=True)
    second.settles(running)
    first.audit()


def test_a_role_decides_what_a_manager_runs(cluster: TwoManagers, machines: tuple[Machine, Machine]) -> None:
    first, second = cluster.managers
    del machines
    first.stop()
    second.stop()
    second.start("--role", "coordinator")
    first.start("--role", "api")
    assert "none in this role" in second.said
    assert second.cli("status").returncode == 0
    works_at(first, "placed by the other")
    assert cluster.led() is second
    first.stop()
    second.stop()
    for manager in (first, second):
        manager.start("--set", f"scheduler.lease_ms={LEASE_MS}")


@pytest.mark.usefixtures("machines")
def test_an_agent_that_is_removed_at_one_manager_is_cut_off_by_all(cluster: TwoManagers, tmp_path: Path) -> None:
    first, second = cluster.managers
    with machine(tmp_path / "a3") as third:
        third.run(*join_words(first), "--name", "a3")
        for manager in (first, second):
            linked(manager, third)
        assert first.cli("agent", "remove", "a3", "--yes").returncode == 0
        for manager in (first, second):
            cut_off(manager, third)
