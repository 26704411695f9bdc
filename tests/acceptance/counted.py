"""Sessions whose starts can be counted, and which end when they are told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.acceptance.embedded import SMALL, Embedded

# Each start leaves its process in a file.
SCRIPT = """
import os, pathlib, sys, time
starts, end = sys.argv[1], pathlib.Path(sys.argv[1] + ".end")
with open(starts, "a") as file:
    file.write(f"{os.getpid()}\\n")
print("up", flush=True)
while not end.exists():
    time.sleep(0.01)
print("over", flush=True)
raise SystemExit(int(end.read_text()))
"""


class Counted:
    """One such session. A file of its own, outside of its kernel's folder, is how it is told."""

    def __init__(self, server: Embedded, file: Path, **body: Any) -> None:
        self._server, self._file = server, file
        self.body = {
            "command": ["python", "-c", SCRIPT, str(file)],
            "resources": SMALL,
            **body,
        }
        self.id = ""

    def submit(self) -> None:
        """Ask for it; asked for again, it is the same."""
        answer = self._server.api(
            "POST", "/sessions", json=self.body, headers={"Idempotency-Key": f"key-{self._file.name}"}
        )
        assert answer.status_code in {200, 201}, answer.text
        self.id = answer.json()["id"]

    def end(self, code: int = 0) -> None:
        """Let it end with this code."""
        whole = self._file.with_name(f"{self._file.name}.new")
        whole.write_text(str(code), encoding="ascii")
        whole.rename(f"{self._file}.end")

    @property
    def starts(self) -> list[int]:
        """The process of each start."""
        return [int(pid) for pid in self._file.read_text(encoding="ascii").split()] if self._file.exists() else []


def counted(server: Embedded, file: Path, **body: Any) -> Counted:
    """Submit such a session."""
    session = Counted(server, file, **body)
    session.submit()
    return session
