"""Endpoints and credentials of etcd."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from sokovan.domain.errors import InvalidSpec

PORT = 2379


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """Endpoints and credentials of etcd.

    An endpoint is `host:port` or a URL; `https` needs `ca_certificate`. `client_certificate`
    and `client_key` authenticate the client without a password. All are PEM.
    """

    endpoints: tuple[str, ...]
    username: str = ""
    password: str = field(default="", repr=False)
    ca_certificate: bytes | None = field(default=None, repr=False)
    client_certificate: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)
    server_name: str = ""
    deadline_s: float = 5.0

    def __post_init__(self) -> None:
        for problem in (*self._endpoint_problems(), *self._other_problems()):
            raise InvalidSpec(what="access to etcd", field=problem[0], value=problem[1], problem=problem[2])

    def _endpoint_problems(self) -> list[tuple[str, object, str]]:
        if not self.endpoints:
            return [("endpoints", self.endpoints, "must name at least one")]
        wrong = [(one, urlsplit(one).scheme) for one in self.endpoints if "://" in one]
        return [("endpoints", one, "must be http or https") for one, scheme in wrong if scheme not in {"http", "https"}]

    def _other_problems(self) -> list[tuple[str, object, str]]:
        secure = any(one.startswith("https://") for one in self.endpoints)
        checks = [
            (secure and self.ca_certificate is None, "ca_certificate", None, "is needed for https"),
            (bool(self.password) and not self.username, "username", "", "is needed with a password"),
            (
                (self.client_certificate is None) != (self.client_key is None),
                "client_key",
                "...",
                "and client_certificate go together",
            ),
            (self.deadline_s <= 0, "deadline_s", self.deadline_s, "must be more than 0"),
        ]
        return [(name, value, problem) for is_wrong, name, value, problem in checks if is_wrong]

    def hosts(self) -> list[tuple[str, int]]:
        """Host and port of each endpoint."""
        parts = [urlsplit(one if "://" in one else f"//{one}") for one in self.endpoints]
        return [(part.hostname or "localhost", part.port or PORT) for part in parts]
