"""Sessions whose starts can be counted, and which end on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.acceptance.embedded import SMALL, Embedded

# Each start leaves a line in a file.
SCRIPT = """
import os, pathlib, sys, time
starts, end = pathlib.Path(sys.argv[1]) / "starts", pathlib.Path(sys.argv[1]) / "end"
with open(starts, "a") as file:
    file.write(os.environ["SOKOVAN_KERNEL_ID"] + "\\n")
print("up", flush=True)
while not end.exists():
    time.sleep(0.01)
print("over", flush=True)
raise SystemExit(int(end.read_text()))
"""


class Counted:
    """One such session, controlled by files in a folder mounted into the kernel."""

    def __init__(self, server: Embedded, folder: Path, **body: Any) -> None:
        folder.mkdir()
        folder.chmod(0o777)  # the kernel may have an account of its own
        self._server, self._folder = server, folder
        self.body = {
            "command": ["python", "-c", SCRIPT, str(folder)],
            "resources": SMALL,
            "mounts": [{"source": str(folder), "target": str(folder), "read_only": False}],
            **body,
        }
        self.id = ""

    def submit(self) -> None:
        """Ask for it; asked for again, it is the same."""
        answer = self._server.api(
            "POST", "/sessions", json=self.body, headers={"Idempotency-Key": f"key-{self._folder.name}"}
        )
        assert answer.status_code in {200, 201}, answer.text
        self.id = answer.json()["id"]

    def end(self, code: int = 0) -> None:
        """Let it end with this code."""
        whole = self._folder / "end.new"
        whole.write_text(str(code), encoding="ascii")
        whole.rename(self._folder / "end")

    @property
    def starts(self) -> list[str]:
        """The kernel of each start."""
        file = self._folder / "starts"
        return file.read_text(encoding="ascii").split() if file.exists() else []


def counted(server: Embedded, folder: Path, **body: Any) -> Counted:
    """Submit such a session."""
    session = Counted(server, folder, **body)
    session.submit()
    return session
