"""Every command of docs/howto/cluster.md, in its order: a running server moves to PostgreSQL and becomes a cluster."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cluster import HOSTS, free_port
from tests.acceptance.embedded import LIMIT_S, READY, Embedded, until
from tests.acceptance.machines import link
from tests.forked_commands import ForkedCommand
from tests.kernels import kill, relatives

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "cluster.md"
DATABASE = "postgresql://sokovan:SECRET@db.example/sokovan"


def commands() -> list[tuple[str, list[str]]]:
    """The commands of the page: the machine, and the words after `sokovan`."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    found = [line.partition("$ ") for line in lines]
    assert all(command.startswith("sokovan ") for _, _, command in found), found
    return [(host, shlex.split(command)[1:]) for host, _, command in found]


class Desk(Embedded):
    """A machine of the page: its folders, and the commands that go on running there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True)
        self.running: list[ForkedCommand] = []

    @property
    def environment(self) -> dict[str, str]:
        """Any free port instead of those of the page."""
        return {**super().environment, "SOKOVAN_API__PORT": "0"}

    @property
    def heard(self) -> str:
        """The output of the commands that go on."""
        file = self.folder / "running.out"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def keep(self, words: list[str]) -> None:
        """Start a command that goes on."""
        with (self.folder / "running.out").open("ab") as output:
            self.running.append(self.started(output, *words))

    def halt(self) -> None:
        """End all of them."""
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=LIMIT_S)
        self._client.close()


class Page:
    """Runs the commands of the page on machines of its own."""

    def __init__(self, folder: Path, database: str) -> None:
        self.desks = {name: Desk(folder / name) for name in ("one", "two", "gpu1")}
        first, second = (f"{host}:{free_port(host)}" for host in HOSTS)
        self._real = {DATABASE: database, "10.0.0.1:7649": first, "10.0.0.2:7649": second}
        self._join: list[str] = []
        self.ran: list[str] = []

    def run(self, host: str, words: list[str]) -> None:
        """Run one command, and wait for its end, or until it is ready."""
        desk = self.desks[host]
        if words[:2] == ["agent", "join"]:
            words = [*self._join, *words[words.index("--name") :]]
        words = [self._filled(word) for word in words]
        self.ran.append(" ".join(words[:2]))
        if words[0] == "server" and words[1].startswith("-"):
            if host == "two":
                self._copy_cluster()
            desk.keep(words)
            until(lambda: READY in desk.heard, what="the manager is ready", tell=lambda: desk.heard)
        elif words[:2] in (["agent", "run"], ["agent", "join"]):
            desk.keep(words)
            name = "gpu1" if host == "gpu1" else self.host_agent()
            until(
                lambda: link(self.desks["one"], name) == (True, "alive"), what="it is linked", tell=lambda: desk.heard
            )
        else:
            done = desk.cli(*words)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
            if words == ["agent", "token"]:
                self._join = shlex.split(done.stdout)[1:]

    def host_agent(self) -> str:
        """The name of the agent of the first machine."""
        items = self.desks["one"].api("GET", "/agents").json()["items"]
        return str(next(one["id"] for one in items if one["id"] != "gpu1"))

    def _filled(self, word: str) -> str:
        one = self.desks["one"]
        for placeholder, real in self._real.items():
            word = word.replace(placeholder, real)
        word = re.sub(r"\bDATA\b", str(one.data), word)
        return str(one.about["links"]) if word == "ws://127.0.0.1:7647" else word

    def _copy_cluster(self) -> None:
        """Copy the folder of the configuration to the second machine, and name its keys there."""
        source, target = (self.desks[name].folder / "cluster" for name in ("one", "two"))
        shutil.copytree(source, target)
        file = target / "sokovan.toml"
        file.write_text(file.read_text(encoding="utf-8").replace(str(source), str(target)), encoding="utf-8")


@pytest.fixture
def page(tmp_path: Path, postgres_url: str) -> Iterator[Page]:
    made = Page(tmp_path, postgres_url)
    try:
        yield made
    finally:
        for desk in made.desks.values():
            desk.halt()
            for pid in relatives(desk.kernels):
                kill(pid)


def test_a_running_server_becomes_a_cluster_and_its_kernels_go_on(page: Page) -> None:
    one = page.desks["one"]
    before: set[int] = set()
    for host, words in commands():
        if words[0] == "down":
            until(lambda: one.session("long")["status"] == "running", what="the session runs")
            before = set(relatives(one.kernels))
        if words[0] == "stop":
            assert one.session("long")["status"] == "running"
            assert before
            assert before <= set(relatives(one.kernels))
        page.run(host, words)
    assert {"up --detach", "server init", "server migrate", "server check", "server status"} <= set(page.ran)
    # It was adopted, and not started again.
    assert one.session("long")["kernels"][0]["attempt"] == 1
    for name in ("one", "two"):
        done = page.desks[name].cli("run", "--cpus", "0.2", "--mem", "64MiB", "--", "echo", name)
        assert (done.returncode, done.stdout) == (0, f"{name}\n"), done.stderr
