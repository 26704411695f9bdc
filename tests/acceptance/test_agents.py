"""Agents that are killed, that come back, and that never come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance.agent_process import AgentProcess
from tests.acceptance.claims import shows
from tests.acceptance.counted import counted
from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well
from tests.acceptance.fast_timings import FastTimings
from tests.acceptance.package_index import package_index
from tests.kernels import kernels_alive, relatives

SLEEPS = "import time; time.sleep(600)"
SILENCE_S = 8


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    folder = tmp_path_factory.mktemp("agents")
    timings = FastTimings(heartbeat_s=0.5, silence_s=SILENCE_S, holds=str(folder / "holds"))
    server = Embedded(folder, timings=timings)
    agent = AgentProcess(server)
    with ended_well(server, agent):
        server.start("--no-agent")
        agent.start()
        yield agent


@pytest.fixture
def server(agent: AgentProcess) -> Embedded:
    agent.revive()
    until(agent.is_connected, what="the agent is there")
    return agent.server


@pytest.fixture
def patience(server: Embedded) -> Iterator[None]:
    """No agent counts as lost, however long its next process takes to come."""
    with server.held("heartbeats"):
        yield


@pytest.mark.usefixtures("patience")
def test_a_kernel_outlives_a_killed_agent_and_is_adopted_by_the_next(
    server: Embedded, agent: AgentProcess, tmp_path: Path
) -> None:
    session = counted(server, tmp_path / "adopted")
    server.says(session.id, "up")
    agent.kill()
    assert set(session.starts) == kernels_alive(agent.kernels)
    agent.start()
    assert server.session(session.id)["status"] == "running"
    session.end(7)
    ended = server.settles(session.id)
    assert (ended["exit_code"], ended["result"]) == (7, "failure")
    assert server.output(session.id) == "up\nover\n"
    assert len(session.starts) == 1
    assert relatives(agent.kernels) == []


@pytest.mark.usefixtures("patience")
def test_an_exit_that_no_agent_saw_is_reported_by_the_next(
    server: Embedded, agent: AgentProcess, tmp_path: Path
) -> None:
    session = counted(server, tmp_path / "unseen")
    server.says(session.id, "up")
    agent.kill()
    session.end(0)
    until(lambda: not relatives(agent.kernels), what="the kernel has ended")
    assert server.session(session.id)["status"] == "running"
    agent.start()
    ended = server.settles(session.id)
    assert (ended["exit_code"], ended["result"]) == (0, "success")
    assert len(session.starts) == 1


@pytest.mark.usefixtures("patience")
def test_an_agent_killed_again_and_again_loses_and_doubles_nothing(
    server: Embedded, agent: AgentProcess, tmp_path: Path
) -> None:
    sessions = []
    for number in range(4):
        sessions += [counted(server, tmp_path / f"many-{number}-{part}") for part in range(2)]
        # Killed at once: requests are under way, kernels are being started.
        agent.kill()
        agent.start()
    for number, session in enumerate(sessions):
        server.says(session.id, "up")
        session.end(number)
    for number, session in enumerate(sessions):
        assert server.settles(session.id)["exit_code"] == number
        assert len(session.starts) == 1
    assert agent.used() == {}


@pytest.mark.usefixtures("patience")
def test_a_stop_that_was_asked_for_while_no_agent_was_there_is_carried_out_by_the_next(
    server: Embedded, agent: AgentProcess
) -> None:
    session = server.python(SLEEPS)
    server.reaches(session, "running")
    agent.kill()
    assert server.end(session)["status"] == "terminating"
    assert agent.used() != {}
    agent.start()
    assert server.settles(session)["exit_code"] == 143
    assert agent.used() == {}


@shows(
    session="scheduled:retry_requested pulling:retry_requested prepared:retry_requested creating:failed running:failed",
    kernel="scheduled:retry_requested pulling:retry_requested prepared:retry_requested creating:failed running:failed",
)
def test_when_an_agent_is_gone_for_good_every_session_on_it_ends_or_is_placed_again(
    server: Embedded, agent: AgentProcess, tmp_path: Path
) -> None:
    with package_index() as index:
        ends = {"running": counted(server, tmp_path / "ends").id}
        requeued = counted(server, tmp_path / "again", on_agent_lost="requeue", name="again")
        for one in (ends["running"], requeued.id):
            server.says(one, "up")
            server.reaches(one, "running")  # its output may be there earlier
        images = agent.kernels / "images"
        (images / "endless.txt").write_text(index.requirements, encoding="utf-8")
        (images / "asked.txt").touch()
        waits = {"pulling": server.submit("python", "-c", SLEEPS, image="venv:endless")["id"]}
        server.reaches(waits["pulling"], "pulling")
        with ExitStack() as held:
            # Nothing comes of its silence before each of them is where it is to be.
            silence = held.enter_context(ExitStack())
            silence.enter_context(server.held("heartbeats"))
            agent.pause()
            ends["creating"] = server.python(SLEEPS)
            server.reaches(ends["creating"], "creating")
            held.enter_context(server.held("create"))
            waits["prepared"] = server.python(SLEEPS)
            waits["preparing"] = server.submit("python", "-c", SLEEPS, image="venv:asked")["id"]
            server.reaches(waits["prepared"], "prepared")
            server.reaches(waits["preparing"], "preparing")
            held.enter_context(server.held("prepare"))
            waits["scheduled"] = server.python(SLEEPS)
            server.reaches(waits["scheduled"], "scheduled")
            agent.kill()
            silence.close()
            for status, session in ends.items():
                lost = server.reaches(session, "terminating", "terminated")
                assert (status, lost["reason"]) == (status, "agent-lost")
            # Nothing of these was sent to it: they wait for another agent.
            for session in waits.values():
                server.reaches(session, "pending")
    # What may still run holds its slots, until the machine is there again and says what became of it.
    assert agent.used() != {}
    put_back = server.session("again")
    assert (put_back["status"], put_back["id"] != requeued.id) == ("pending", True)
    assert len(requeued.starts) == 1
    agent.start()
    for session in ends.values():
        assert server.settles(session)["result"] == "failure"
    for session in waits.values():
        server.end(session)
    for session in waits.values():
        server.settles(session)  # one may have been placed on the agent meanwhile
    server.settles(requeued.id)
    server.says("again", "up")
    assert len(requeued.starts) == 2
    requeued.end(0)
    assert server.settles("again")["result"] == "success"
    assert agent.used() == {}


def test_a_machine_that_is_declared_gone_frees_what_its_kernels_held(
    server: Embedded, agent: AgentProcess, tmp_path: Path
) -> None:
    other = AgentProcess(server, "agent-2")
    other.start()
    drained = server.api("PATCH", f"/agents/{agent.name}", json={"action": "drain"})
    assert drained.status_code == 200, drained.text
    session = counted(server, tmp_path / "gone")
    server.says(session.id, "up")
    other.kill()
    try:
        server.reaches(session.id, "terminating")
        answer = server.api("PATCH", f"/agents/{other.name}", json={"action": "declare-gone", "reason": "burnt"})
        assert answer.status_code == 200, answer.text
        assert server.settles(session.id)["reason"] == "agent-lost"
        assert other.used() == {}
    finally:
        session.end(0)
        until(lambda: not relatives(other.kernels), what="what burnt is gone")
    assert server.api("PATCH", f"/agents/{agent.name}", json={"action": "undrain"}).status_code == 200
