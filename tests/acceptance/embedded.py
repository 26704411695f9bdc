"""A whole system as people run it: `sokovan up` and the command line, as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx2

T = TypeVar("T")

SOKOVAN = str(Path(sys.executable).with_name("sokovan"))
READY_LIMIT_S = 60
LIMIT_S = 60
STEP_S = 0.02


class Embedded:
    """One data folder, the server on it, and a shell beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data" / "sokovan"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Of everything that is started here: nothing of the user who runs the tests."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.folder),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "NO_COLOR": "1",
        }

    def start(self, *options: str) -> None:
        """Bring the server up, and wait until it says that it is."""
        assert self._process is None
        about = self.data / "up.json"
        about.unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "up.out").open("ab") as output:
            self._process = subprocess.Popen(
                [SOKOVAN, "up", "--port", "0", *options],
                env=self.environment,
                cwd=self.folder,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )
        process = self._process
        until(lambda: about.exists() or process.poll() is not None, limit_s=READY_LIMIT_S, what="the server is up")
        assert process.poll() is None, self.said

    @property
    def said(self) -> str:
        """What the server wrote."""
        return (self.folder / "up.out").read_text(encoding="utf-8")

    @property
    def about(self) -> Mapping[str, Any]:
        """What the server left about itself."""
        found: dict[str, Any] = json.loads((self.data / "up.json").read_text(encoding="utf-8"))
        return found

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None
        return self._process.pid

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the server with a signal; its exit code."""
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(number)
        return process.wait(timeout=LIMIT_S)

    def kill(self) -> None:
        """End the server without a word."""
        self.stop(signal.SIGKILL)

    def close(self) -> None:
        """End whatever of this is left: the server, and kernels that outlived it."""
        if self._process is None:
            self.start()
        for session in self.sessions():
            if session["status"] not in {"terminated", "cancelled"}:
                self.api("DELETE", f"/sessions/{session['id']}", params={"forced": "true"})
        until(lambda: not self.kernels_held(), what="every kernel has ended")
        self.stop()

    def cli(self, *arguments: str, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a person would, and wait for it."""
        return subprocess.run(
            [SOKOVAN, *arguments],
            env={**self.environment, **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
        )

    def cli_json(self, *arguments: str) -> Any:
        """What a command that succeeds gives to programs."""
        done = self.cli(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def api(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Ask the API with the first administrator's key."""
        token = (self.data / "token").read_text(encoding="ascii").strip()
        with httpx2.Client(trust_env=False, timeout=LIMIT_S) as client:
            return client.request(
                method,
                f"{self.about['url']}/api/v1{path}",
                headers={"Authorization": f"Bearer {token}", **options.pop("headers", {})},
                **options,
            )

    def submit(self, *command: str, **body: Any) -> dict[str, Any]:
        """Submit a small session."""
        resources = body.pop("resources", {"cpu": 0.1, "mem": "64MiB"})
        answer = self.api("POST", "/sessions", json={"command": list(command), "resources": resources, **body})
        assert answer.status_code == 201, answer.text
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
            there, limit_s=limit_s, what=f"{reference} is {' or '.join(statuses)}", tell=self._story(reference)
        )

    def history(self, reference: str) -> list[dict[str, Any]]:
        """The whole story of a session and its kernels."""
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
        """Every law of the store holds."""
        done = self.cli("audit")
        assert done.returncode == 0, done.stdout + done.stderr

    def _story(self, reference: str) -> Callable[[], str]:
        return lambda: json.dumps(self.history(reference), indent=1)[-4000:] + self.said[-2000:]


def until(
    found: Callable[[], T | None], *, limit_s: float = LIMIT_S, what: str, tell: Callable[[], str] = lambda: ""
) -> T:
    """What `found` gives, as soon as it gives something that is true."""
    waiting = threading.Event()
    for _ in range(int(limit_s / STEP_S)):
        answer = found()
        if answer:
            return answer
        waiting.wait(STEP_S)
    raise AssertionError(f"not within {limit_s:g} s: {what}\n{tell()}")
