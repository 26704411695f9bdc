"""An agent of its own, as a process: stopped, paused, killed and started again at will."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.acceptance.embedded import LIMIT_S, Embedded, until
from tests.acceptance.fast_timings import FastTimings
from tests.forked_commands import ForkedCommand


class AgentProcess:
    """One machine of a server that was started with --no-agent."""

    def __init__(self, server: Embedded, name: str = "agent-1", options: tuple[str, ...] = ()) -> None:
        self.server, self.name, self._options = server, name, options
        self.root = server.folder / name
        self._process: ForkedCommand | None = None

    def start(self) -> None:
        """Dial the server, and wait until it counts this machine in."""
        self.begin()
        until(self.is_connected, what=f"{self.name} is connected", tell=lambda: self.said)

    def begin(self) -> None:
        """Dial the server."""
        assert self._process is None
        self.root.mkdir(exist_ok=True)
        token = str(self.server.data / "agent-token")
        options = ["--token-file", token, "--root", str(self.root), "--name", self.name, *self._options]
        with (self.root / "agent.out").open("ab") as output:
            words = ("agent", "run", self.server.about["links"], *options)
            self._process = self.server.started(output, *words, timings=FastTimings(venvs_linked=True))

    @property
    def said(self) -> str:
        """The output of the agent."""
        return (self.root / "agent.out").read_text(encoding="utf-8")

    @property
    def kernels(self) -> Path:
        """The folder of its kernels."""
        return self.root / "kernels"

    def is_connected(self) -> bool:
        """Whether the server hears this agent."""
        answer = self.server.api("GET", f"/agents/{self.name}")
        return answer.status_code == 200 and answer.json()["connected"] and answer.json()["status"] == "alive"

    def used(self) -> dict[str, int]:
        """The slots in use on this machine, by the server's account."""
        found: dict[str, int] = self.server.api("GET", f"/agents/{self.name}").json()["used"]
        return {slot: amount for slot, amount in found.items() if amount}

    def pause(self) -> None:
        """Let it do nothing at all, as if its machine hung."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it with a signal; its kernels go on."""
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(signal.SIGCONT)
        process.send_signal(number)
        process.wait(timeout=LIMIT_S)

    def kill(self) -> None:
        """End it without a word."""
        self.stop(signal.SIGKILL)

    def revive(self) -> None:
        """Be there, whatever happened, so that its kernels can be ended."""
        if self._process is None:
            self.begin()
        self.resume()

    def quit(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self.kill()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
