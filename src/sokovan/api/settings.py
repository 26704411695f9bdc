"""Settings of the API."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sokovan.domain.checks import require_int
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.owners.outputs import CopyLimits

PEPPER_BYTES_MIN = 32
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """Limits of streams: watching, following logs, running commands.

    `idle_s` is the keep-alive interval, `recheck_s` the interval of checking the key
    again, `reread_s` the interval of reading the store without events. The fleet is read again
    after `fleet_s` at the earliest. Of commands and
    connections in kernels, a user has at most `commands_per_agent_max` at each agent.
    """

    streams_max: int = 1_000
    streams_per_user_max: int = 100
    commands_per_agent_max: int = 64
    queue_max: int = 1_000
    idle_s: float = 15.0
    recheck_s: float = 1.0
    reread_s: float = 10.0
    fleet_s: float = 1.0
    lasts_s_max: float = 24 * 3600.0
    log_poll_s: float = 0.1
    log_poll_s_max: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Limits and secrets of the API; `repr` omits the secrets.

    `proxy_token` is the credential of proxies, none without one; `digest_key` is the key of
    the digests of endpoint tokens, which proxies get.
    `machine` is the mark of the machine whose files all agents see; empty if they do not.
    `process` names the process of a server that has several, for probes.
    """

    pepper: bytes = field(repr=False)
    machine: str = ""
    process: str = ""
    proxy_token: str = field(default="", repr=False)
    digest_key: str = field(default="", repr=False)
    several_users_without_isolation: bool = False
    allowed_hosts: tuple[str, ...] = LOOPBACK
    body_bytes_max: int = 1 << 20
    requests_per_s: int = 2_000
    requests_burst: int = 4_000
    failures_per_minute: int = 10
    # Of one user; more wait for their turn.
    reads_at_once: int = 2
    # A revoked key is rejected after this at the latest; open streams check again every `recheck_s`.
    principal_kept_s: float = 2.0
    streams: StreamLimits = field(default_factory=StreamLimits)
    copies: CopyLimits = field(default_factory=CopyLimits)

    def shared_by(self, processes: int, *, process: str) -> ApiSettings:
        """The part of one of several processes: the limits hold for all of them together."""

        def part(whole: int) -> int:
            return -(-whole // processes)

        return replace(
            self,
            process=process,
            requests_per_s=part(self.requests_per_s),
            requests_burst=part(self.requests_burst),
            failures_per_minute=part(self.failures_per_minute),
            reads_at_once=part(self.reads_at_once),
            streams=replace(
                self.streams,
                streams_max=part(self.streams.streams_max),
                streams_per_user_max=part(self.streams.streams_per_user_max),
                commands_per_agent_max=part(self.streams.commands_per_agent_max),
            ),
        )

    def __post_init__(self) -> None:
        if len(self.pepper) < PEPPER_BYTES_MIN:
            problem = f"is shorter than {PEPPER_BYTES_MIN} bytes"
            raise InvalidSpec(what="API settings", field="pepper", value="(hidden)", problem=problem)
        for name in ("body_bytes_max", "requests_per_s", "requests_burst", "failures_per_minute", "reads_at_once"):
            require_int(getattr(self, name), what="API settings", field=name, least=1)
