"""The toy engine as a process, with failures on demand."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import sokovan
from sokovan.engines.toy import KEY_VARIABLE
from sokovan.testing.servers.process import LOOPBACK, ServerProcess

REPLY_LIMIT_S = 30.0


class ToyEngineServer(ServerProcess):
    """A toy engine with these options of its command line, and a key if one is given."""

    environment = "SOKOVAN_TEST_TOY_URL"

    def __init__(self, *options: str, model: str = "toy", key: str = "") -> None:
        super().__init__()
        self._options, self.model, self.key = options, model, key

    @property
    def url(self) -> str:
        """The base URL of the OpenAI API."""
        return f"http://{LOOPBACK}:{self.port}/v1"

    def _arguments(self) -> Sequence[str]:
        """The program as a module, whatever is on the PATH."""
        own = ("--port", str(self.port), "--model", self.model)
        return [sys.executable, "-m", "sokovan.engines.toy", *own, *self._options]

    @property
    def _variables(self) -> Mapping[str, str]:
        """The path of the package, and the key."""
        return {"PATH": os.defpath, "PYTHONPATH": str(Path(sokovan.__file__).parents[1]), KEY_VARIABLE: self.key}

    def answers(self) -> bool:
        """Whether it listens; it may still be loading."""
        try:
            return self.get("/health")[0] in {200, 503}
        except (OSError, HTTPException):
            return False

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        """Status and body of a POST with the key."""
        return self._ask("POST", path, json.dumps(body).encode())

    def enter(self, mode: str) -> None:
        """Let it behave in another way from now on; it may be gone afterwards."""
        self.post("/toy/mode", {"mode": mode})

    def metrics(self) -> dict[str, int]:
        """Its own counters by name."""
        lines = self.get("/metrics")[1].decode().splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines if not line.startswith("#"))}

    def _ask(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        connection = HTTPConnection(LOOPBACK, self.port, timeout=REPLY_LIMIT_S)
        try:
            headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
