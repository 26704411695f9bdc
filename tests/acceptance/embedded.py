"""A whole system as people run it: `sokovan up` and the command line, as processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import INTERNAL_SERVER_ERROR, OK, SERVICE_UNAVAILABLE
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import httpx2

from sokovan.entrypoints.audit import audited
from tests.acceptance.fast_timings import FastTimings
from tests.forked_commands import REQUEST_MAX, ForkedCommand, command_process
from tests.kernel_ports import Rigs, ports_variable

T = TypeVar("T")

SOKOVAN = str(Path(sys.executable).with_name("sokovan"))
# Variables passed through: where programs are, and how much a failing server logs.
KEPT = ("PATH", "LANG", "TMPDIR", "PYTHONPATH", "SOKOVAN_DEBUG")
# Options of `up` by which the program starts itself again.
STARTS_ITSELF = frozenset(["--detach", "--install-service", "--uninstall-service"])
READY_LIMIT_S = 240
LIMIT_S = 240
# Between two looks, at first and at most: each look costs the server as much as a short command.
STEP_S, STEP_MAX_S = 0.02, 0.15
READY = "ready in"
ENDED = ("terminated", "cancelled")
# Nothing that runs gets more than it asked for: with less, Python takes seconds to begin.
SMALL = {"cpu": 0.2, "mem": "64MiB"}


class Embedded:
    """One data folder, the server on it, and a shell beside it; `path` replaces the PATH of both."""

    def __init__(self, folder: Path, *, timings: FastTimings | None = None, path: str = "") -> None:
        self.folder, self.timings, self._path = folder, timings, path
        self.data = folder / "data" / "sokovan"
        self._process: ForkedCommand | None = None
        self._client = httpx2.Client(trust_env=False, timeout=LIMIT_S)

    @property
    def environment(self) -> dict[str, str]:
        """Of everything that is started here: nothing of the user who runs the tests."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {
            **kept,
            "PATH": self._path or kept["PATH"],
            "HOME": str(self.folder),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "NO_COLOR": "1",
            **ports_variable(Rigs.ACCEPTANCE),
        }

    def begin(self, *options: str) -> None:
        """Bring the server up, without waiting until it is."""
        assert self._process is None
        (self.data / "up.json").unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "up.out").open("ab") as output:
            self._process = self.started(output, "up", "--port", "0", *options, timings=self.timings)

    def start(self, *options: str) -> None:
        """Bring the server up, and wait until it says that it is."""
        said = len(self.said)
        self.begin(*options)
        until(lambda: READY in self.said[said:] or not self.is_up, limit_s=READY_LIMIT_S, what="the server is up")
        assert self.is_up, self.said

    def started(self, output: BinaryIO, *words: str, timings: FastTimings | None = None) -> ForkedCommand:
        """Start a command that runs until it is ended."""
        return command_process().start(
            words, environment=self.environment, folder=self.folder, output=output.fileno(), timings=timings
        )

    @property
    def said(self) -> str:
        """The output of the server."""
        file = self.folder / "up.out"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    @property
    def about(self) -> Mapping[str, Any]:
        """The contents of the server's up.json."""
        found: dict[str, Any] = json.loads((self.data / "up.json").read_text(encoding="utf-8"))
        return found

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_up(self) -> bool:
        """Whether the server runs, as far as was heard."""
        return self._process is not None and self._process.poll() is None

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the server with a signal; its exit code."""
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(number)
        return process.wait(timeout=LIMIT_S)

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self.stop(signal.SIGKILL)

    def quit(self) -> None:
        """End the server, if there is one."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop()
        self._client.close()

    def end_all(self) -> None:
        """End every session, and wait until nothing of any is left."""
        for session in self.sessions():
            if session["status"] not in ENDED:
                self.api("DELETE", f"/sessions/{session['id']}", params={"forced": "true"})
        until(lambda: not self.kernels_held(), what="every kernel has ended", tell=lambda: str(self.kernels_held()))

    @property
    def kernels(self) -> Path:
        """The folder of the kernels of the agent that is part of the server."""
        return self.data / "agent" / "kernels"

    @contextlib.contextmanager
    def held(self, work: str) -> Iterator[None]:
        """Hold back a kind of work of a server with fast timings, for as long as the context is open."""
        assert self.timings is not None
        file = Path(self.timings.holds) / work
        file.parent.mkdir(exist_ok=True)
        file.touch()
        try:
            yield
        finally:
            file.unlink()

    def cli(self, *arguments: str, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a person would, and wait for it."""
        return sokovan_in(self.folder, self, *arguments, stdin=stdin, **environment)

    def cli_json(self, *arguments: str) -> Any:
        """Run a command with --json, which must succeed, and parse its output."""
        done = self.cli(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def api(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Ask the API with the first administrator's key."""
        token = (self.data / "token").read_text(encoding="ascii").strip()
        answer = self._client.request(
            method,
            f"{self.about['url']}/api/v1{path}",
            headers={"Authorization": f"Bearer {token}", **options.pop("headers", {})},
            **options,
        )
        assert answer.status_code != INTERNAL_SERVER_ERROR, f"{method} {path}: {answer.text}"
        return answer

    def submit(self, *command: str, **body: Any) -> dict[str, Any]:
        """Submit a small session."""
        resources = body.pop("resources", SMALL)
        answer = self.api("POST", "/sessions", json={"command": list(command), "resources": resources, **body})
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def python(self, script: str, **body: Any) -> str:
        """Submit a session that runs a Python script; its id."""
        return str(self.submit(sys.executable, "-c", script, **body)["id"])

    def end(self, reference: str, *, forced: bool = False) -> dict[str, Any]:
        """Ask for the end of a session; the session then."""
        answer = self.api("DELETE", f"/sessions/{reference}", params={"forced": str(forced).lower()})
        assert answer.status_code == 202, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def session(self, reference: str) -> dict[str, Any]:
        """A session as the API shows it."""
        answer = self.api("GET", f"/sessions/{reference}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def sessions(self) -> list[dict[str, Any]]:
        """The newest sessions."""
        found: list[dict[str, Any]] = self.api("GET", "/sessions", params={"limit": 500}).json()["items"]
        return found

    def reaches(self, reference: str, *statuses: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
        """Wait until a session has one of the statuses; the session then."""

        def there() -> dict[str, Any] | None:
            found = self.session(reference)
            return found if found["status"] in statuses else None

        return until(
            there, limit_s=limit_s, what=f"{reference} is {' or '.join(statuses)}", tell=self._failure_report(reference)
        )

    def settles(self, reference: str) -> dict[str, Any]:
        """Wait until a session has ended and holds nothing; the session then."""
        self.reaches(reference, *ENDED)
        until(
            lambda: all(kernel["status"] in ENDED for kernel in self.session(reference)["kernels"]),
            what=f"nothing of {reference} is left",
            tell=self._failure_report(reference),
        )
        return self.session(reference)

    def output(self, reference: str, kernel: int = 0) -> str:
        """The output of a kernel."""
        answer = self.api("GET", f"/sessions/{reference}/kernels/{kernel}/log")
        if answer.status_code == SERVICE_UNAVAILABLE and answer.json()["code"] == "agent-unreachable":
            return ""
        assert answer.status_code == OK, answer.text + self._failure_report(reference)()
        return b64decode(answer.json()["data"]).decode()

    def says(self, reference: str, text: str, kernel: int = 0) -> str:
        """Wait until a kernel has said something; all that it has said."""

        def said() -> str | None:
            found = self.output(reference, kernel)
            return found if text in found else None

        return until(said, what=f"{reference} says {text!r}", tell=self._failure_report(reference))

    def history(self, reference: str) -> list[dict[str, Any]]:
        """The whole history of a session and its kernels."""
        lines: list[dict[str, Any]] = self.api("GET", f"/sessions/{reference}/history").json()["lines"]
        return lines

    def moves(self, reference: str) -> list[str]:
        """The triggers that a session took, in order."""
        identity = self.session(reference)["id"]
        return [
            line["trigger"]
            for line in self.history(reference)
            if line["subject"] == identity and line["before"] != line["after"]
        ]

    def kernels_held(self) -> list[str]:
        """Sessions whose kernels still hold something."""
        return [
            session["name"]
            for session in self.sessions()
            if any(kernel["status"] not in {"pending", "terminated", "cancelled"} for kernel in session["kernels"])
        ]

    def audit(self) -> None:
        """Check that every invariant of the store holds, as `sokovan audit` does, without its start."""
        file = self.data / "state.db"
        if not file.exists():  # its store is elsewhere, which the command knows
            checked = self.cli("audit")
            assert checked.returncode == 0, checked.stdout + checked.stderr
            return
        report = audited(f"sqlite:///{file}")
        assert report.holds, [finding for finding in report.findings if not finding.holds]

    def _failure_report(self, reference: str) -> Callable[[], str]:
        return lambda: json.dumps(self.history(reference), indent=1)[-4000:] + self.said[-2000:]


def sokovan_in(
    folder: Path, server: Embedded, *words: str, stdin: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A command that a person runs in a folder."""
    environment = {**server.environment, **environment}
    if _may_fork(words):
        return command_process().run(words, environment=environment, folder=folder, stdin=stdin or "", limit_s=LIMIT_S)
    return subprocess.run(
        [SOKOVAN, *words],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
    )


def _may_fork(words: Sequence[str]) -> bool:
    """Whether a command may run in a process that has imported the program: not where the start matters."""
    return sum(map(len, words)) <= REQUEST_MAX // 4 and not STARTS_ITSELF.intersection(words)


def until(
    found: Callable[[], T | None], *, limit_s: float = LIMIT_S, what: str, tell: Callable[[], str] = lambda: ""
) -> T:
    """Poll `found` until it returns a true value, and return that."""
    waiting = threading.Event()
    waited_s, step_s = 0.0, STEP_S
    while waited_s < limit_s:
        answer = found()
        if answer:
            return answer
        waiting.wait(step_s)
        waited_s, step_s = waited_s + step_s, min(step_s * 1.3, STEP_MAX_S)
    raise AssertionError(f"not within {limit_s:g} s: {what}\n{tell()}")
