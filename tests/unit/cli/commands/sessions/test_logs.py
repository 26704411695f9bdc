"""`sokovan logs`: the output of a session."""

from __future__ import annotations

import base64

import httpx2
import pytest

from sokovan.cli.commands.sessions.logs import follow_log
from sokovan.sdk.core.streams.followers import LogOptions
from sokovan.sdk.errors import ServerFailed
from sokovan.sdk.sync.connection import Connection
from sokovan.sdk.sync.sessions import Sessions
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.fake_server import ENDPOINT, FakeClock, HandlerTransport, ok, problem
from tests.unit.sdk.views import ended, pending, session


def chunk(kernel: int, offset: int, text: str, *, end: bool = False) -> tuple[str, object]:
    """A piece of output."""
    data = base64.b64encode(text.encode()).decode()
    after = offset + len(text)
    return "log", {"kernel": kernel, "offset": offset, "next_offset": after, "data": data, "end": end}


def test_the_output_of_one_kernel_is_printed_as_it_is(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/ddp", session(size=1))
    server.streams("GET sessions/ddp/log", chunk(0, 0, "one\ntw"), chunk(0, 6, "o", end=True))
    assert sokovan("logs", "ddp") == (0, "one\ntwo", "")


def test_the_lines_of_several_kernels_begin_with_their_rank(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/ddp", session(size=2))
    server.streams(
        "GET sessions/ddp/log", chunk(0, 0, "a\nb"), chunk(1, 0, "x\n"), chunk(0, 3, "c\n"), chunk(1, 2, "y")
    )
    assert sokovan("logs", "ddp")[1] == "[0] a\n[1] x\n[0] bc\n[1] y\n"


def test_one_kernel_of_several_has_no_rank_unless_asked_for(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/ddp", session(size=2))
    server.streams("GET sessions/ddp/log", chunk(1, 0, "x\n", end=True))
    assert sokovan("logs", "ddp", "--kernel", "1", "--tail", "5", "-f")[1] == "x\n"
    assert sokovan("logs", "ddp", "--kernel", "1", "--prefix")[1] == "[1] x\n"
    assert server.lines[1] == "GET sessions/ddp/log?follow=true&tail=5&kernel=1"


def test_some_kernels_of_several_are_asked_for_together(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/ddp", session(size=8))
    server.streams("GET sessions/ddp/log", chunk(1, 0, "x\n"), chunk(3, 0, "y\nz\n"))
    assert sokovan("logs", "ddp", "--kernel", "0-1,3")[1] == "[1] x\n[3] y\n[3] z\n"
    assert server.lines[-1] == "GET sessions/ddp/log?kernel=0%2C1%2C3"


def test_lines_with_a_text_are_found_in_any_case(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/ddp", session(size=2))
    server.streams(
        "GET sessions/ddp/log", chunk(0, 0, "Loss 1\nstep\nlo"), chunk(1, 0, "loss 2"), chunk(0, 14, "ss 3\n")
    )
    assert sokovan("logs", "ddp", "--search", "LOSS")[1] == "[0] Loss 1\n[0] loss 3\n[1] loss 2\n"
    assert sokovan("logs", "ddp", "--kernel", "0", "--search", "step")[1] == "step\n"


@pytest.mark.parametrize("text", ["3-1", "x", "1,,2", "", "0-299", "-1", "0-9999999999"])
def test_kernels_that_are_none_or_too_many_are_a_usage_error(server: CannedServer, sokovan: Sokovan, text: str) -> None:
    assert sokovan("logs", "ddp", f"--kernel={text}")[0] == 2
    assert server.asked == []


def test_who_follows_a_pending_session_is_told_so(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/ddp", pending())
    server.streams("GET sessions/ddp/log", chunk(0, 0, "x\n", end=True))
    told = "ddp is PENDING; waiting for its start, see sokovan why ddp\n"
    assert sokovan("logs", "ddp", "-f", "--kernel", "0") == (0, "x\n", told)


def test_an_unreachable_agent_is_reported_with_the_message_of_the_server(
    server: CannedServer, sokovan: Sokovan
) -> None:
    server.says("GET sessions/ddp", session())
    server.refuses("GET sessions/ddp/log", 503, "agent-unreachable", detail="agent a1: it has no link")
    assert sokovan("logs", "ddp") == (1, "", "error: agent a1: it has no link\n  hint: fix it [agent-unreachable]\n")


@pytest.mark.slow
def test_following_an_unreachable_agent_is_reported_once(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/ddp", session())
    server.refuses("GET sessions/ddp/log", 503, "agent-unreachable", detail="agent a1: it has no link")
    server.answers["GET sessions/ddp/log"] *= 2
    server.streams("GET sessions/ddp/log", chunk(0, 0, "back\n", end=True), later=True)
    message = "agent a1: it has no link; retrying until the session ends\n"
    assert sokovan("logs", "ddp", "-f") == (0, "back\n", message)


def test_an_unreachable_agent_is_retried_until_the_session_ends() -> None:
    looks = [session(), session(), ended(exit_code=0)]

    def answer(request: httpx2.Request) -> httpx2.Response:
        return problem(503, "agent-unreachable") if request.url.path.endswith("/log") else ok(looks.pop(0))

    transport = HandlerTransport(answer)
    sessions = Sessions(Connection(ENDPOINT, transport=transport, environment=FakeClock()))
    with pytest.raises(ServerFailed):
        list(follow_log(sessions, "s-1", LogOptions(follow=True, size=1)))
    assert looks == []


@pytest.mark.parametrize("words", [("--tail", "-1"), ("--kernel", "-1"), ("--tail", "x")])
def test_negative_numbers_are_a_usage_error(server: CannedServer, sokovan: Sokovan, words: tuple[str, ...]) -> None:
    assert sokovan("logs", "ddp", *words)[0] == 2
    assert server.asked == []


def test_output_that_is_no_longer_kept_is_not_found(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/ddp", session())
    server.refuses("GET sessions/ddp/log", 410, "log-gone")
    status, _, err = sokovan("logs", "ddp")
    assert status == 3
    assert "[log-gone]" in err
