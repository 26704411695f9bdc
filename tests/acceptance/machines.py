"""Machines that join a server: their own folders and processes, and the server's view of them."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sokovan.entrypoints.joining.joined_agent import JOINED_FILE, join_machine
from tests.acceptance.embedded import LIMIT_S, SMALL, Embedded
from tests.forked_commands import ForkedCommand

LITTLE = ("--cpus", str(SMALL["cpu"]), "--mem", str(SMALL["mem"]))


class Machine(Embedded):
    """A machine with an agent that has joined: the same shell, other folders, no server."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folder.mkdir()
        self._agent: ForkedCommand | None = None

    @property
    def joined(self) -> Path:
        """The folder of its identity."""
        return self.data / "agent" / "joined"

    @property
    def said(self) -> str:
        """The output of the agent."""
        return (self.folder / "agent.out").read_text(encoding="utf-8")

    def run(self, *words: str) -> None:
        """Start its agent by this command."""
        with (self.folder / "agent.out").open("ab") as output:
            self._agent = self.started(output, *words)

    def halt(self) -> None:
        """Stop its agent."""
        if self._agent is not None:
            process, self._agent = self._agent, None
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=LIMIT_S)


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """A machine whose agent is stopped at the end."""
    made = Machine(folder)
    try:
        yield made
    finally:
        made.halt()


def join_words(server: Embedded, *options: str) -> list[str]:
    """The command that the server prints for a new machine."""
    made = server.cli("agent", "token", *options)
    assert made.returncode == 0, made.stderr
    words = shlex.split(made.stdout)
    assert words[:3] == ["sokovan", "agent", "join"]
    return words[1:]


def join_through(one: Machine, server: Embedded, name: str, urls: Sequence[str]) -> None:
    """Join a machine that will reach the managers by other addresses."""
    words = join_words(server)
    token, authority = (words[words.index(option) + 1] for option in ("--token", "--ca"))
    asyncio.run(join_machine(words[2], token=token, authority=authority, agent_id=name, folder=one.joined))
    file = one.joined / JOINED_FILE
    joined = {**json.loads(file.read_text(encoding="utf-8")), "url": urls[0], "managers": list(urls), "fixed": True}
    file.write_text(json.dumps(joined), encoding="utf-8")


def link(server: Embedded, name: str) -> tuple[bool, str]:
    """Whether an agent is connected, and its status."""
    answer = server.api("GET", f"/agents/{name}")
    return (answer.json()["connected"], answer.json()["status"]) if answer.status_code == 200 else (False, "unknown")
