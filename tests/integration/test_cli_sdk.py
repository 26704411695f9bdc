"""The SDK against a real server: the same session for the sync and the async client."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

import sokovan
from sokovan.sdk.config import read_config
from sokovan.sdk.core.streams.followers import LogOptions
from sokovan.sdk.errors import NotFound, Refused, Unauthorized
from sokovan.sdk.session_request import session_body
from tests.integration.cli_rig import Rig, server_up


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A server with an agent on this machine."""
    with server_up(tmp_path_factory.mktemp("home")) as up:
        yield up


@pytest.fixture
def address(rig: Rig) -> tuple[str, str]:
    """Address and key of the server."""
    [context] = read_config(rig.home / "config" / "sokovan" / "config.toml").contexts.values()
    return context.url, context.token


def test_a_handle_knows_everything_about_its_session(address: tuple[str, str]) -> None:
    with sokovan.Client(*address) as client:
        session = client.run("sh -c 'echo one; echo two; sleep 600'", cpus=0.1, name="held")
        session.wait("RUNNING", timeout=30)
        assert session.why() is None
        assert session.where == [agent.id for agent in client.agents.list()]
        lines = iter(session.logs(follow=True))
        assert [str(next(lines)), str(next(lines))] == ["one", "two"]
        with session.exec(["cat"]) as execution:
            execution.write(b"abc")
            execution.end_input()
            assert b"".join(execution) == b"abc"
            assert execution.exit_code == 0
        session.stop()
        assert session.wait(timeout=60).status == "terminated"
        assert session.exit_code not in {None, 0}
        assert [view.name for view in client.sessions.list(name="held")] == ["held"]
        chunk = client.kernels.log("held", 0)
        assert base64.b64decode(chunk.data) == b"one\ntwo\n"
        assert client.kernels.list("held")[0].status == "terminated"


def test_the_same_key_is_the_same_session(address: tuple[str, str]) -> None:
    with sokovan.Client(*address) as client:
        body = session_body("true", cpus=0.1)
        first = client.sessions.submit(body, key="once")
        assert client.sessions.submit(body, key="once").id == first.id
        assert client.sessions.wait(first.id, timeout=30).exit_code == 0


def test_many_sessions_are_submitted_in_one_request_and_each_is_judged_for_itself(address: tuple[str, str]) -> None:
    with sokovan.Client(*address) as client:
        bodies = [session_body(["sh", "-c", f"exit {code}"], cpus=0.1, name=f"many-{code}") for code in (0, 1, 2)]
        items = client.sessions.submit_many([*bodies, bodies[0]], key="many")
        assert [item.name for item in items] == ["many-0", "many-1", "many-2", None]
        assert items[-1].problem is not None
        assert items[-1].problem.code == "name-taken"
        codes = [client.sessions.wait(item.session, timeout=60).exit_code for item in items if item.session]
        assert codes == [0, 1, 2]


async def test_the_async_client_has_the_same_names(address: tuple[str, str]) -> None:
    async with sokovan.AsyncClient(*address) as client:
        session = await client.run(["sh", "-c", "echo one; exit 3"], cpus=0.1)
        view = await session.wait(timeout=60)
        assert (view.exit_code, session.exit_code) == (3, 3)
        assert [str(line) async for line in session.logs()] == ["one"]
        pieces = [piece.content async for piece in client.sessions.logs(session.id, LogOptions(tail=1))]
        assert b"".join(pieces) == b"one\n"
        assert (await client.health()).status
        long = await client.run(["sleep", "600"], cpus=0.1)
        await long.wait("RUNNING", timeout=30)
        async with await long.exec(["sh", "-c", "exit 5"]) as execution:
            assert await execution.exit_code() == 5
        await long.stop(forced=True)


def test_events_tell_of_a_session(address: tuple[str, str]) -> None:
    with sokovan.Client(*address) as client:
        events = client.events()
        assert next(iter(events)).trigger == "resync"
        session = client.run("true", cpus=0.1)
        seen = []
        for event in events:
            if event.id == session.id:
                seen.append(event.after)
            if seen and seen[-1] == "terminated":
                break
        assert "creating" in seen


def test_problems_have_their_own_classes(address: tuple[str, str]) -> None:
    with sokovan.Client(*address) as client:
        with pytest.raises(NotFound):
            client.sessions.get("nobody")
        done = client.run("true", cpus=0.1)
        done.wait(timeout=60)
        with pytest.raises(Refused):
            client.sessions.cancel(done.id)
    with sokovan.Client(address[0], "sk-AK.nonsense") as stranger, pytest.raises(Unauthorized):
        stranger.whoami()
