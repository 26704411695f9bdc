"""Servers that are stopped or killed at any moment: nothing is lost, nothing is doubled."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.agent_process import AgentProcess
from tests.acceptance.counted import Counted, counted
from tests.acceptance.embedded import ENDED, SMALL, Embedded, until
from tests.acceptance.endings import ended_well
from tests.acceptance.fast_timings import FastTimings
from tests.kernels import kernels_alive

# Short enough that a second server on the same store would take over at once.
LEASE_S = 0.6
# The commits of its server, of whatever kind, after which a server dies during an update, one after the other.
KILLED_AFTER = (2, 5, 11)


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Embedded]:
    """A server that a test may kill, with its agent in it."""
    server = Embedded(tmp_path / "up")
    with ended_well(server):
        server.start()
        yield server


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port: int = door.getsockname()[1]
        return port


def test_a_server_that_was_stopped_finds_its_sessions_again_and_adopts_what_runs(
    killed: Embedded, tmp_path: Path
) -> None:
    goes_on, ends = (counted(killed, tmp_path / name) for name in ("goes-on", "ends"))
    waits = killed.python("pass", resources={**SMALL, "cuda.device": 3})
    for one in (goes_on, ends):
        killed.says(one.id, "up")
    assert killed.stop(signal.SIGTERM) == 0
    assert kernels_alive(killed.kernels) == {*goes_on.starts, *ends.starts}
    ends.end(3)
    until(lambda: kernels_alive(killed.kernels) == set(goes_on.starts), what="one of them has ended")
    killed.start()
    assert killed.settles(ends.id)["exit_code"] == 3
    assert killed.session(waits)["status"] == "pending"
    assert killed.reaches(goes_on.id, "running")
    goes_on.end(0)
    assert killed.settles(goes_on.id)["result"] == "success"
    assert killed.output(goes_on.id) == "up\nover\n"
    assert [len(one.starts) for one in (goes_on, ends)] == [1, 1]


def test_a_server_killed_while_a_session_is_new_runs_or_ends_loses_and_doubles_nothing(
    killed: Embedded, tmp_path: Path
) -> None:
    sessions = []
    for number, status in enumerate(("pending", "running", "terminating")):
        session = counted(killed, tmp_path / status)
        sessions.append(session)
        if status != "pending":
            killed.says(session.id, "up")
        if status == "terminating":
            session.end(number)
            killed.reaches(session.id, "terminating", "terminated")
        killed.kill()
        killed.start()
    for number, session in enumerate(sessions):
        if killed.session(session.id)["status"] not in ENDED:
            killed.says(session.id, "up")
            session.end(number)
    for number, session in enumerate(sessions):
        assert killed.settles(session.id)["exit_code"] == number
        assert len(session.starts) == 1
    assert len(killed.sessions()) == len(sessions)


def test_a_server_killed_after_each_of_its_commits_in_turn_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """One session for each commit of a session's life, right after which the server dies."""
    armed = tmp_path / "holds" / "armed"
    armed.parent.mkdir()
    server = Embedded(tmp_path / "up")
    sessions: list[Counted] = []
    with ended_well(server):
        died = True
        while died:
            number = len(sessions) + 1
            server.timings = FastTimings(holds=str(armed.parent), dies_after=number, lease_s=LEASE_S)
            server.start()
            if sessions:
                outlived(server, sessions[-1], code=len(sessions))
            session = Counted(server, tmp_path / f"commit-{number}")
            session.end(number)  # it ends by itself as soon as it runs
            sessions.append(session)
            armed.touch()
            died = dies_during(server, session, armed)
            if died:
                assert server.stop() == -signal.SIGKILL
        assert len(sessions) > 5, "the life of a session has more commits than that"
        for number, session in enumerate(sessions, start=1):
            outlived(server, session, code=number)
        assert len(server.sessions()) == len(sessions)


def test_a_server_killed_after_each_commit_of_a_withdrawal_spares_the_victim(tmp_path: Path) -> None:
    """The taker of an eviction is cancelled before the notice: whatever happens, its victim runs on."""
    armed, hold = tmp_path / "holds" / "armed", tmp_path / "holds" / "terminate"
    armed.parent.mkdir()
    server = Embedded(tmp_path / "up")

    def restarted(commits: int) -> None:
        server.timings = FastTimings(holds=str(armed.parent), dies_after=commits, lease_s=LEASE_S)
        server.start()

    with ended_well(server):
        restarted(1)
        for words in (
            ("scaling-group", "set", "default", "--option", 'actions=["enqueue","allocate","preempt"]'),
            ("queue", "set", "default", "--min-runtime", "0s"),
        ):
            done = server.cli(*words)
            assert done.returncode == 0, done.stderr
        cores = server.api("GET", "/agents").json()["items"][0]["slots"]["cpu"] // 1000
        whole = {"cpu": cores, "mem": "64MiB"}
        victim = counted(server, tmp_path / "victim", type="batch", resources=whole)
        server.says(victim.id, "up")
        kills = 0
        for commits in range(2, 12):
            hold.touch()
            taker = server.python("pass", type="batch", priority=5, resources=whole)
            server.reaches(victim.id, "terminating")
            armed.touch()
            died = dies_in_withdrawal(server, taker, hold, victim)
            armed.unlink(missing_ok=True)
            if died:
                kills += 1
                assert server.stop() == -signal.SIGKILL
                restarted(commits)
                withdraw(server, taker, hold, victim)
            spared = server.session(victim.id)
            assert (spared["status"], spared["attempt"], spared["evictions"]) == ("running", 1, [])
            if not died:
                break
        assert kills > 1, "a withdrawal has more commits than that"
        victim.end(0)
        assert server.settles(victim.id)["result"] == "success"
        assert len(victim.starts) == 1
        server.audit()


def withdraw(server: Embedded, taker: str, hold: Path, victim: Counted) -> None:
    """Cancel a taker, let the server go on, and wait until its victim runs on."""
    server.end(taker)
    hold.unlink(missing_ok=True)
    server.reaches(victim.id, "running")


def dies_in_withdrawal(server: Embedded, taker: str, hold: Path, victim: Counted) -> bool:
    """Whether the server dies before the victim runs on."""
    return dies_in(lambda: withdraw(server, taker, hold, victim), server, hold.parent / "armed")


def dies_in(step: Callable[[], object], server: Embedded, armed: Path) -> bool:
    """Whether the server dies before a step is over; otherwise it no longer will."""
    with contextlib.suppress(httpx2.TransportError, AssertionError, FileNotFoundError):
        step()
        armed.unlink()  # it is not there if the server dies by a commit that it has begun
        return False
    until(lambda: not server.is_up, limit_s=120, what="the server is dead")
    return True


def test_a_server_killed_after_some_of_the_commits_of_an_update_completes_it(tmp_path: Path) -> None:
    armed = tmp_path / "holds" / "armed"
    armed.parent.mkdir()
    timings = FastTimings(holds=str(armed.parent), lease_s=LEASE_S, settled_s=0.5, dies_after=KILLED_AFTER[0])
    server = Embedded(tmp_path / "up", timings=timings)
    with ended_well(server):
        server.start()
        server.cli_json("serve", "toy", "--name", "rolls", "--cpus", "0.2", "--mem", "128MiB")
        updated = server.cli("deployment", "update", "rolls", "--detach", "--", "--tokens", "3")
        assert updated.returncode == 0, updated.stderr
        for commits in (*KILLED_AFTER[1:], 0):
            armed.touch()
            until(lambda: not server.is_up, limit_s=240, what="the server is dead")
            assert server.stop() == -signal.SIGKILL
            server.timings = replace(timings, dies_after=commits)
            server.start()

        def view() -> dict[str, Any]:
            found: dict[str, Any] = server.cli_json("deployment", "show", "rolls")
            return found

        until(lambda: view()["rollout"] is None, limit_s=240, what="the update has ended")
        assert (view()["revision"]["number"], view()["replicas_active"]) == (2, 1)
        until(lambda: len(live(server)) == 1, what="the replica of the old revision has ended")
        server.cli("deployment", "rm", "rolls", "--yes")
        until(lambda: not server.cli_json("deployment", "ls"), limit_s=240, what="it is gone")


def live(server: Embedded) -> list[str]:
    """The sessions that have not ended. A replica of an old revision drains after the update."""
    return [one["name"] for one in server.sessions() if one["status"] not in ENDED]


def outlived(server: Embedded, session: Counted, *, code: int) -> None:
    """The session is what it would have been without the death of its server."""
    session.submit()  # a client that got no response retries
    assert server.settles(session.id)["exit_code"] == code
    assert len(session.starts) == 1


def test_a_server_killed_alone_is_dialled_again_by_its_agent_which_has_gone_on(tmp_path: Path) -> None:
    server = Embedded(tmp_path / "up", timings=FastTimings(link_port=free_port(), lease_s=LEASE_S))
    agent = AgentProcess(server)
    with ended_well(server, agent):
        server.start("--no-agent")
        agent.start()
        runs, ends, stops = (counted(server, tmp_path / name) for name in ("runs", "ends", "stops"))
        for one in (runs, ends, stops):
            server.says(one.id, "up")
        server.end(stops.id)
        server.kill()
        ends.end(4)
        until(lambda: kernels_alive(agent.kernels) <= {*runs.starts, *stops.starts}, what="one of them has ended")
        server.start("--no-agent")
        assert server.settles(ends.id)["exit_code"] == 4
        assert server.settles(stops.id)["reason"] == "user-requested"
        assert server.session(runs.id)["status"] == "running"
        runs.end(0)
        assert server.settles(runs.id)["result"] == "success"
        assert [len(one.starts) for one in (runs, ends, stops)] == [1, 1, 1]


def dies_during(server: Embedded, session: Counted, armed: Path) -> bool:
    """Whether the server dies before the session has ended."""

    def life() -> None:
        session.submit()
        server.settles(session.id)

    return dies_in(life, server, armed)
