"""Two managers on one PostgreSQL database, and two machines that joined them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from valkey import Valkey

from sokovan.testing.servers import PostgresServer, ValkeyServer
from tests.acceptance.cluster import HOSTS, Manager, TwoManagers, freeze, thaw
from tests.acceptance.counted import Counted, counted
from tests.acceptance.embedded import Embedded, until
from tests.acceptance.machines import LITTLE, Machine, join_through, join_words, link, machine
from tests.acceptance.relay import Relay, relays
from tests.database_users import as_user, create_users, names_in, removed_users
from tests.kernels import kill, relatives

LEASE_MS = 1500
# The agent a2 is linked through relays; the labels of a1 and a2.
NEAR, FAR = {"site": "near"}, {"site": "far"}
SLEEP = (sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)")


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer, worker_number: int
) -> Iterator[TwoManagers]:
    """Both managers, ready, on a database of their own, in which API and coordinators have their own roles."""
    name = f"cluster_{worker_number}"
    postgres_server.drop_database(name)
    two = TwoManagers(tmp_path_factory.mktemp("cluster"), postgres_server.create_database(name))
    with removed_users(postgres_server, two.database):
        try:
            two.init()
            set_up(two)
            yield two
        finally:
            two.quit()


def set_up(two: TwoManagers) -> None:
    """Migrate and start, as the how-to says; each refusal on the way has its exit code."""
    first, second = two.managers
    early = first.cli("server", "run")
    assert (early.returncode, "sokovan server migrate" in early.stderr) == (5, True), early.stderr
    checked = first.cli("server", "check")
    assert (checked.returncode, "schema" in checked.stderr) == (1, True), checked.stderr
    separate_roles(two)
    migrated = first.cli("server", "migrate")
    assert (migrated.returncode, "granted privileges" in migrated.stderr) == (0, True), migrated.stderr
    assert first.cli("server", "status").returncode == 1
    for manager in (first, second):
        manager.start("--set", f"scheduler.lease_ms={LEASE_MS}")
    checked = first.cli("server", "check", "--set", f"cluster.managers=127.0.0.2:{two.ports[0]}")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "answers agents with the authority of this cluster" in checked.stdout
    assert checked.stdout.count("may do what it needs, and no more") == 3, checked.stdout


def separate_roles(two: TwoManagers) -> None:
    """Create the roles by the printed statements, and name them in the file."""
    names = names_in(two.database)
    words = ("--api", names.api, "--coordinator", names.coordinator, "--migration", names.migration)
    printed = two.managers[0].cli("server", "roles", *words)
    assert printed.returncode == 0, printed.stderr
    create_users(two.database, printed.stdout)
    api, coordinator, migration = (
        as_user(two.database, name) for name in (names.api, names.coordinator, names.migration)
    )
    lines = f'url = "{coordinator}"\napi_url = "{api}"\nmigration_url = "{migration}"\n'
    text = two.config.read_text(encoding="utf-8")
    two.config.write_text(text.replace(f'url = "{two.database}"\n', lines), encoding="utf-8")


@pytest.fixture(scope="module")
def paths(cluster: TwoManagers) -> Iterator[tuple[Relay, ...]]:
    """The ways of a2 to both managers."""
    with relays(*zip(HOSTS, cluster.ports, strict=True)) as made:
        yield made


@pytest.fixture(scope="module")
def machines(
    cluster: TwoManagers, paths: tuple[Relay, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Machine, Machine]]:
    """Two machines that joined at one manager each, and are linked to both."""
    first, second = cluster.managers
    with ExitStack() as stack:
        near, far = (stack.enter_context(machine(tmp_path_factory.mktemp("machine") / name)) for name in ("a1", "a2"))
        near.run(*join_words(first), "--name", "a1")
        join_through(far, second, "a2", [one.url for one in paths])
        far.run("agent", "run")
        for manager in (first, second):
            for one in (near, far):
                linked(manager, one)
        for name, label in (("a1", "site=near"), ("a2", "site=far")):
            assert first.cli("agent", "label", name, label).returncode == 0
        yield near, far
        for one in (near, far):
            for pid in relatives(one.kernels):
                kill(pid)


@pytest.fixture
def healed(cluster: TwoManagers, machines: tuple[Machine, Machine], paths: tuple[Relay, ...]) -> Iterator[None]:
    """Heals the ways of a2 after a test."""
    yield
    for path in paths:
        path.heal()
    for manager in cluster.managers:
        linked(manager, machines[1])


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


def dialled_again(path: Relay, before: int) -> None:
    """Wait until an agent has dialled by this way, after so many times."""
    until(lambda: path.taken > before, what="the agent has dialled again")


def submitted(manager: Manager, folder: Path, count: int, **body: object) -> list[Counted]:
    """Submit sessions whose starts are counted."""
    folder.mkdir()
    return [counted(manager, folder / f"{folder.name}-{number}", **body) for number in range(count)]


def each_ran_once(manager: Manager, sessions: Sequence[Counted]) -> None:
    """Wait until all run, end them, and check that none was started twice; the audit is clean."""
    for one in sessions:
        manager.says(one.id, "up")
        one.end()
    assert [manager.settles(one.id)["result"] for one in sessions] == ["success"] * len(sessions)
    assert [len(one.starts) for one in sessions] == [1] * len(sessions)
    manager.audit()


@pytest.mark.usefixtures("machines")
def test_every_manager_takes_sessions_and_shows_their_output(cluster: TwoManagers) -> None:
    first, second = cluster.managers
    works_at(first, "one")
    works_at(second, "two")
    session = first.submit(*SLEEP)["id"]
    second.reaches(session, "running")  # its output may come earlier
    done = second.cli("exec", session, "--", "echo", "inside")
    assert (done.returncode, done.stdout) == (0, "inside\n"), done.stderr
    second.end(session, forced=True)
    first.settles(session)

    def led() -> set[str]:
        told = json.loads(first.cli("server", "status", "--json").stdout)
        return {lease["coordinator"] for lease in told["leases"]}

    # On a busy machine a lease of so short a time may be nobody's for a moment.
    until(lambda: led() == {"sessions", "deployments", "routes"}, what="each coordinator has its lease")


@pytest.mark.usefixtures("machines")
def test_changes_are_watched_at_a_manager_that_does_not_lead(cluster: TwoManagers) -> None:
    leader = cluster.led()
    other = cluster.other(leader)
    key = {"Authorization": f"Bearer {(other.data / 'token').read_text(encoding='ascii').strip()}"}
    address = f"{other.about['url']}/api/v1/events"
    with httpx2.stream("GET", address, headers=key, trust_env=False, timeout=60) as changes:
        lines = changes.iter_lines()
        next(lines)  # the stream is open
        session = leader.submit(*SLEEP)["id"]
        next(line for line in lines if session in line and '"running"' in line)
    leader.end(session, forced=True)
    leader.settles(session)


@pytest.mark.usefixtures("machines")
def test_the_fleet_is_followed_at_each_manager(cluster: TwoManagers) -> None:
    leader = cluster.led()
    other = cluster.other(leader)
    with ExitStack() as stack:
        streams = []
        for one in (leader, other):
            key = {"Authorization": f"Bearer {(one.data / 'token').read_text(encoding='ascii').strip()}"}
            address = f"{one.about['url']}/api/v1/fleet/events"
            stream = stack.enter_context(httpx2.stream("GET", address, headers=key, trust_env=False, timeout=60))
            streams.append(stream.iter_lines())
        for lines in streams:
            next(line for line in lines if line == "event: fleet")
        session = leader.submit(*SLEEP)["id"]
        for lines in streams:
            next(line for line in lines if '"agent_at":[' in line and '"agent_at":[]' not in line)
    leader.end(session, forced=True)
    leader.settles(session)


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
    first.reaches(session, "running")
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
    other.reaches(running, "running")
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
def test_a_leader_that_was_frozen_does_no_harm_when_it_goes_on(cluster: TwoManagers, tmp_path: Path) -> None:
    leader = cluster.led()
    other, before = cluster.other(leader), cluster.epoch
    # It freezes in the middle of placing and starting these.
    sessions = submitted(other, tmp_path / "frozen", 6)
    freeze(leader.pid)
    try:
        works_at(other, "while the leader hangs")
        for one in sessions:
            other.says(one.id, "up")
    finally:
        thaw(leader.pid)
    works_at(leader, "through the former leader")
    assert cluster.epoch > before
    each_ran_once(leader, sessions)


@pytest.mark.usefixtures("healed")
def test_a_kernel_starts_once_though_its_agent_cannot_answer(
    cluster: TwoManagers, machines: tuple[Machine, Machine], paths: tuple[Relay, ...], tmp_path: Path
) -> None:
    first, far = cluster.managers[0], machines[1]
    [before] = submitted(first, tmp_path / "before", 1, require=FAR)
    first.reaches(before.id, "running")
    for path in paths:
        path.hold(forward=True)
    [during] = submitted(first, tmp_path / "during", 1, require=FAR)
    until(lambda: during.starts, what="the agent has heard of it", tell=lambda: far.said)
    for manager in cluster.managers:
        cut_off(manager, far)
    assert first.session(during.id)["status"] != "running"
    assert first.session(before.id)["status"] == "running"
    for path in paths:
        path.heal()
    each_ran_once(first, [before, during])


@pytest.mark.usefixtures("healed")
def test_an_agent_that_is_cut_off_both_ways_is_suspect_and_its_kernel_goes_on(
    cluster: TwoManagers, machines: tuple[Machine, Machine], paths: tuple[Relay, ...]
) -> None:
    first, far = cluster.managers[0], machines[1]
    running = first.submit(*SLEEP, require=FAR)["id"]
    first.says(running, "begun")
    for path in paths:
        path.hold(forward=True, back=True)
    until(lambda: link(first, "a2") == (False, "suspect"), what="it is suspect", tell=lambda: far.said)
    assert "suspect" in first.cli("agent", "show", "a2").stdout.lower()
    for path in paths:
        path.heal()
    for manager in cluster.managers:
        linked(manager, far)
    shown = first.session(running)
    assert (shown["status"], shown["kernels"][0]["attempt"]) == ("running", 1)
    first.end(running, forced=True)
    first.settles(running)


@pytest.mark.usefixtures("healed")
def test_a_kernel_starts_once_its_agent_hears_managers_again(
    cluster: TwoManagers, paths: tuple[Relay, ...], tmp_path: Path
) -> None:
    first, second = cluster.managers
    for path in paths:
        path.hold(back=True)
    [session] = submitted(first, tmp_path / "unheard", 1, require=FAR)
    first.reaches(session.id, "preparing", "prepared", "creating")
    each_ran_once(second, submitted(second, tmp_path / "elsewhere", 1, require=NEAR))
    # Its heartbeats arrive, but do not count: nothing more is placed where no command arrives.
    until(lambda: link(second, "a2")[1] == "suspect", what="it counts as not reachable")
    [later] = submitted(second, tmp_path / "later", 1, require=FAR)
    until(lambda: "not reachable" in second.cli("why", later.id).stdout, what="the session says so")
    assert (session.starts, later.starts) == ([], [])
    for path in paths:
        path.heal()
    each_ran_once(second, [session, later])


@pytest.mark.usefixtures("healed")
def test_sessions_start_once_over_a_link_that_is_cut_again_and_again(
    cluster: TwoManagers, paths: tuple[Relay, ...], tmp_path: Path
) -> None:
    first, sessions = cluster.managers[0], list[Counted]()
    for number in range(5):
        sessions += submitted(first, tmp_path / f"cut{number}", 1, require=FAR)
        taken = [path.taken for path in paths]
        for path in paths:
            path.cut()
        for path, before in zip(paths, taken, strict=True):
            dialled_again(path, before)
    each_ran_once(first, sessions)


@pytest.mark.usefixtures("machines")
def test_managers_go_on_after_the_database_was_killed(
    cluster: TwoManagers, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    if postgres_server.is_given:
        pytest.skip("the server of the environment is not ours to kill")
    first, second = cluster.managers
    running = first.submit(*SLEEP)["id"]
    first.says(running, "begun")
    placed = submitted(second, tmp_path / "placed", 6)
    postgres_server.kill()
    postgres_server.start()
    works_at(first, "after the restart")
    works_at(second, "and there")
    assert first.session(running)["status"] == "running"
    first.end(running, forced=True)
    second.settles(running)
    each_ran_once(first, placed)


def test_a_role_decides_what_a_manager_runs(cluster: TwoManagers, machines: tuple[Machine, Machine]) -> None:
    first, second = cluster.managers
    del machines
    first.stop()
    second.stop()
    second.start("--role", "coordinator")
    first.start("--role", "api")
    assert "none in this role" in second.said
    until(lambda: second.cli("status").returncode == 0, what="it is well")
    probes = second.cli_json("status")["probes"]
    key = {"Authorization": f"Bearer {(second.data / 'token').read_text(encoding='ascii').strip()}"}
    with httpx2.Client(base_url=probes, headers=key, trust_env=False, timeout=60) as client:
        until(lambda: client.get("/readyz").status_code == 200, what="it leads and is ready")
        assert "sokovan_" in client.get("/metrics").text
        assert client.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert client.get("/api/v1/sessions").status_code == 404
    works_at(first, "placed by the other")
    assert cluster.led() is second
    first.stop()
    second.stop()
    for manager in (first, second):
        manager.start("--set", f"scheduler.lease_ms={LEASE_MS}")


@pytest.mark.usefixtures("machines")
def test_messages_between_managers_may_go_by_valkey_which_may_fail(
    cluster: TwoManagers, valkey_server: ValkeyServer
) -> None:
    if valkey_server.is_given:
        pytest.skip("the server of the environment is not ours to kill")
    prefix = f"cluster-{cluster.ports[0]}"
    by_valkey = ("--set", f"valkey.url={valkey_server.url}", "--set", f"valkey.prefix={prefix}")
    checked = cluster.managers[0].cli("server", "check", *by_valkey)
    assert "Valkey" in checked.stdout, checked.stdout + checked.stderr
    for manager in cluster.managers:
        manager.stop()
        manager.start("--set", f"scheduler.lease_ms={LEASE_MS}", "--set", "scheduler.long_cycle_s=1", *by_valkey)
    both_listen(valkey_server, prefix)
    for manager in cluster.managers:
        works_at(manager, "by messages")
    valkey_server.kill()
    works_at(cluster.managers[0], "without them")
    valkey_server.restart()
    both_listen(valkey_server, prefix)
    works_at(cluster.managers[1], "by messages again")
    cluster.managers[0].audit()


def both_listen(server: ValkeyServer, prefix: str) -> None:
    """Wait until two managers listen to the messages of their cluster."""
    channel = f"{prefix}:sokovan_hints"
    with Valkey.from_url(server.url) as client:
        until(lambda: client.pubsub_numsub(channel) == [(channel.encode(), 2)], what="both managers listen")


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
