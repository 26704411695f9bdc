"""An upload that one of two managers has received is used through the other one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from sokovan.testing.servers import PostgresServer
from tests.acceptance.cluster import Manager, TwoManagers
from tests.acceptance.embedded import SMALL, until
from tests.acceptance.machines import Machine, link, machine
from tests.acceptance.test_uploads import digest_of, put_blob, put_manifest
from tests.kernels import kill, relatives


@pytest.fixture
def cluster(tmp_path: Path, postgres_server: PostgresServer, worker_number: int) -> Iterator[TwoManagers]:
    """Both managers, ready, on a database of their own."""
    name = f"uploads_{worker_number}"
    postgres_server.drop_database(name)
    two = TwoManagers(tmp_path, postgres_server.create_database(name))
    try:
        two.init()
        migrated = two.managers[0].cli("server", "migrate")
        assert migrated.returncode == 0, migrated.stderr
        for manager in two.managers:
            manager.start()
        yield two
    finally:
        two.quit()


@pytest.fixture
def agent(cluster: TwoManagers, tmp_path: Path) -> Iterator[tuple[Manager, Machine]]:
    """An agent with a link to the manager that leads, and none to the other one."""
    leader, keys = cluster.led(), cluster.config.parent / "keys"
    with machine(tmp_path / "near") as near:
        near.run("agent", "run", leader.about["links"], "--token-file", str(keys / "agent-token"), "--name", "near")
        until(lambda: link(leader, "near") == (True, "alive"), what="it is linked", tell=lambda: near.said)
        yield leader, near
        for pid in relatives(near.kernels):
            kill(pid)


def uploaded(manager: Manager, text: bytes) -> str:
    """Send a folder with one file, and an empty one, to a manager."""
    assert put_blob(manager, text).status_code == 200
    assert put_blob(manager, b"").status_code == 200
    files = {"note": text, "empty": b""}
    answer = put_manifest(
        manager, *({"path": path, "digest": digest_of(data), "size": len(data)} for path, data in files.items())
    )
    assert answer.json()["missing"] == [], answer.text
    return str(answer.json()["id"])


def test_an_upload_to_one_manager_is_used_through_the_other(
    cluster: TwoManagers, agent: tuple[Manager, Machine]
) -> None:
    leader, other = agent[0], cluster.other(agent[0])

    # Received and submitted at one manager; the agent knows the other one only.
    first = uploaded(other, b"served")
    session = other.submit("cat", "note", upload=first)["id"]
    assert leader.settles(session)["result"] == "success", leader.said
    assert leader.output(session) == "served"

    # Received at one, submitted at the other: it has a copy from then on, whatever becomes of the first.
    second = uploaded(other, b"x" * 500_000)  # more than a part of a stream
    session = leader.submit("wc", "-c", "note", upload=second)["id"]
    assert leader.settles(session)["result"] == "success", leader.said
    other.kill()
    session = leader.submit("wc", "-c", "note", upload=second)["id"]
    assert leader.settles(session)["result"] == "success", leader.said
    assert leader.output(session).split() == ["500000", "note"]

    # What no manager has is not found, and that of another user is not either.
    unknown = refused(leader, "0" * 64)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not-found"), unknown.text
    assert leader.cli("user", "set", "eve", "--group", "default").returncode == 0
    key = leader.cli_json("key", "add", "eve")["token"]
    assert refused(leader, second, Authorization=f"Bearer {key}").status_code == 404


def refused(manager: Manager, upload: str, **headers: str) -> httpx2.Response:
    """The answer to a session with an upload that is not there."""
    body = {"command": ["true"], "resources": SMALL, "upload": upload}
    return manager.api("POST", "/sessions", json=body, headers=headers)
