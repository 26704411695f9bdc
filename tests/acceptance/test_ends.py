"""The ways in which sessions end that do not simply end by themselves."""

from __future__ import annotations

import json

from tests.acceptance.claims import shows
from tests.acceptance.embedded import SMALL, Embedded, until
from tests.kernels import kill, programs, relatives

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEPS
# Two generations away from the kernel, in a session of its own, deaf to polite words.
HIDES = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        print("hidden", os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
time.sleep(LASTS)
"""


def used(server: Embedded) -> dict[str, int]:
    """The slots in use on the only agent."""
    [agent] = server.api("GET", "/agents").json()["items"]
    return {slot: amount for slot, amount in agent["used"].items() if amount}


def until_free(server: Embedded) -> None:
    """Wait until no slot is in use; no process may be left by then."""

    def is_free() -> bool:
        free = used(server) == {}
        assert not free or relatives(server.kernels) == []
        return free

    until(is_free, what="the slots are free")


@shows(session="creating:failed", kernel="creating:failed")
def test_a_command_that_does_not_exist_ends_its_session_and_says_so(server: Embedded) -> None:
    ended = server.settles(server.submit("/no/such/program")["id"])
    assert (ended["result"], ended["reason"]) == ("failure", "creation-refused")
    assert "/no/such/program" in ended["reason_detail"]
    assert used(server) == {}


@shows(session="running:stop_requested", kernel="running:stop_requested")
def test_a_kernel_deaf_to_sigterm_is_killed_after_its_grace_and_holds_its_slots_until_then(server: Embedded) -> None:
    session = server.python(DEAF, stop_grace=2)
    server.says(session, "up")
    server.reaches(session, "running")  # its output may be there earlier
    assert server.end(session)["status"] == "terminating"
    assert used(server) != {}
    until_free(server)
    assert server.settles(session)["exit_code"] == 137


@shows(session="terminating:forced")
def test_a_forced_end_shows_at_once_and_frees_nothing_before_the_kernel_is_gone(server: Embedded) -> None:
    session = server.python(DEAF, stop_grace=600)
    server.says(session, "up")
    server.end(session)
    server.reaches(session, "terminating")
    assert used(server) != {}
    assert server.end(session, forced=True)["status"] == "terminated"
    until_free(server)
    assert server.settles(session)["kernels"][0]["exit_code"] == 137


def test_what_a_kernel_hides_ends_with_it_when_it_is_stopped(server: Embedded) -> None:
    session = server.python(HIDES.replace("LASTS", "600"), stop_grace=1)
    server.says(session, "hidden")
    assert len(programs(server.kernels)) == 2
    server.end(session)
    server.settles(session)
    assert relatives(server.kernels) == []


def test_what_a_kernel_leaves_behind_ends_with_it(server: Embedded) -> None:
    session = server.python(HIDES.replace("LASTS", "0.5"))
    ended = server.settles(session)
    assert (ended["exit_code"], ended["result"]) == (0, "success")
    assert "hidden" in server.output(session)
    assert relatives(server.kernels) == []


def test_a_kernel_whose_shim_is_killed_ends_whole_and_its_session_with_it(server: Embedded) -> None:
    session = server.python(HIDES.replace("LASTS", "600"))
    server.says(session, "hidden")
    kernel = server.session(session)["kernels"][0]["id"]
    state = json.loads((server.kernels / "kernels" / f"{kernel}-1" / "state.json").read_text(encoding="utf-8"))
    kill(state["shim_pid"])
    ended = server.settles(session)
    assert (ended["exit_code"], ended["result"]) == (137, "failure")
    assert relatives(server.kernels) == []


@shows(session="running:expired", kernel="running:expired")
def test_a_session_runs_no_longer_than_its_time_limit(server: Embedded) -> None:
    ended = server.settles(server.python(SLEEPS, time_limit=1))
    assert (ended["reason"], ended["result"], ended["exit_code"]) == ("time-limit", "failure", 143)


@shows(session="pending:withdrawn", kernel="pending:withdrawn")
def test_a_session_waits_no_longer_than_its_scaling_group_lets_it(server: Embedded) -> None:
    answer = server.api("PUT", "/scaling-groups/hasty", json={"name": "hasty", "pending_timeout_s": 1})
    assert answer.status_code in {200, 201}, answer.text
    session = server.python("pass", scaling_group="hasty")
    ended = server.reaches(session, "cancelled")
    assert ended["reason"] == "pending-timeout"


@shows(session="pending:withdrawn", kernel="pending:withdrawn")
def test_a_session_that_waits_can_be_cancelled_or_stopped_and_is_gone_at_once(server: Embedded) -> None:
    too_much = {**SMALL, "cuda.device": 3}
    one, other = (server.python("pass", resources=too_much) for _ in range(2))
    assert server.api("POST", f"/sessions/{one}/cancel").json()["status"] == "cancelled"
    assert server.end(other)["status"] == "cancelled"


def test_a_session_that_runs_cannot_be_cancelled_only_stopped(server: Embedded) -> None:
    session = server.python(SLEEPS)
    server.reaches(session, "running")
    refused = server.api("POST", f"/sessions/{session}/cancel")
    assert (refused.status_code, server.session(session)["status"]) == (409, "running")
    server.end(session)
    server.settles(session)


def test_a_second_stop_changes_nothing(server: Embedded) -> None:
    session = server.python(SLEEPS)
    server.reaches(session, "running")
    server.end(session)
    server.end(session)
    server.settles(session)
    again = server.api("DELETE", f"/sessions/{session}")
    assert again.status_code in {202, 409}
    assert server.moves(session).count("stop_requested") == 1
