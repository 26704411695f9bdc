"""The table of the server's settings, section by section.

A setting is one field: type, default, bounds, meaning, and whether it is hot. Everything
else is derived from it: validation, its variable, `config server`, the reference page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sokovan.agent.inventory import read_reserve
from sokovan.domain.cluster.agent import (
    ACCOUNTS_DEFAULT,
    PORTS_DEFAULT,
    PROCESS_RUNTIME,
    port_range_text,
    read_account_range,
    read_network_range,
    read_port_range,
    read_runtime,
)
from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.settings import setting_kinds as kind
from sokovan.entrypoints.settings.listen_address import read_listen
from sokovan.wire.api.system import DEFAULT_PORT, GATEWAY_PORT

DAY_S = 24 * 3600
YEAR_S = 366 * DAY_S
COUNT_MAX = 1_000_000_000
BYTES_MAX = 1 << 50


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Intervals, batch size and allocator of the scheduler."""

    short_cycle_ms: int = kind.whole(20, "Minimum time between two cycles triggered by hints.", least=1, most=60_000)
    long_cycle_s: int = kind.whole(10, "Time between two cycles without a hint.", least=1, most=3600)
    batch_max: int = kind.whole(
        100, "Maximum number of sessions started in one transaction.", least=1, most=100_000, hot=True
    )
    allocator: str = kind.name("repository", "The allocator that applies plans.")
    lease_ms: int = kind.whole(
        3000,
        "Time after which another manager takes over from one that was killed.",
        least=100,
        most=600_000,
    )
    dry_runs_max: int = kind.whole(2, "Dry runs (plan, why) that run at once.", least=1, most=1000)
    dry_runs_waiting_max: int = kind.whole(32, "Dry runs that wait for these.", least=0, most=100_000)
    dry_runs_per_user_max: int = kind.whole(8, "Dry runs of one user, running or waiting.", least=1, most=100_000)
    dry_run_timeout_s: int = kind.whole(10, "How long a dry run waits for its turn.", least=1, most=3600)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Settings that are valid alone but contradict each other."""
        if self.short_cycle_ms > self.long_cycle_s * 1000:
            yield (
                "short_cycle_ms",
                f"{self.short_cycle_ms} ms must not be longer than long_cycle_s, {self.long_cycle_s} s",
            )


@dataclass(frozen=True, slots=True)
class OrchestratorSettings:
    """Heartbeats, lost and failing agents, requests to agents, retention."""

    listen: str = kind.text(
        "",
        "HOST:PORT for agents of other machines, with TLS; empty: no listener beyond this machine.",
        check=lambda text: text and read_listen(text),
        flag="--listen",
    )
    heartbeat_ms: int = kind.whole(2000, "Interval of the heartbeats of agents.", least=100, most=600_000)
    agent_suspect_s: int = kind.whole(
        15, "Heartbeat timeout after which an agent gets no new kernels.", least=1, most=DAY_S, hot=True
    )
    agent_lost_s: int = kind.whole(
        60, "Heartbeat timeout after which an agent counts as lost.", least=2, most=DAY_S, hot=True
    )
    session_lost_s: int = kind.whole(
        60, "How long the sessions of a lost agent are kept, in case it returns.", least=0, most=DAY_S, hot=True
    )
    mass_loss_percent: int = kind.whole(
        30, "If more than this share of the agents is lost at once, no session is ended.", least=1, most=100, hot=True
    )
    mass_loss_agents_min: int = kind.whole(
        4, "With fewer agents than these, a mass loss is not assumed.", least=1, most=COUNT_MAX, hot=True
    )
    mass_loss_window_s: int = kind.whole(60, "Losses within this time count as at once.", least=1, most=DAY_S, hot=True)
    mass_loss_hold_s: int = kind.whole(
        600, "How long the sessions are kept after a mass loss.", least=0, most=YEAR_S, hot=True
    )
    agent_failing_sessions: int = kind.whole(
        3,
        "Failed starts in a row, of different sessions, after which an agent gets no new kernels.",
        least=1,
        most=16,
        hot=True,
    )
    agent_failing_window_s: int = kind.whole(
        600, "Time within which these starts failed.", least=1, most=DAY_S, hot=True
    )
    probe_after_s: int = kind.whole(
        10, "Time after which a failing agent is probed; doubles with each failed probe.", least=1, most=DAY_S, hot=True
    )
    probe_after_max_s: int = kind.whole(600, "Upper bound of this time.", least=1, most=DAY_S, hot=True)
    probe_timeout_s: int = kind.whole(30, "Time in which a probe must end.", least=1, most=3600, hot=True)
    ended_kernels_kept_s: int = kind.whole(
        3600,
        "How long agents keep the logs of ended kernels. An agent takes a change over when it connects.",
        least=0,
        most=YEAR_S,
        hot=True,
    )
    ended_kernels_kept_max: int = kind.whole(
        1000,
        "For how many ended kernels an agent keeps logs. It takes a change over when it connects.",
        least=0,
        most=COUNT_MAX,
        hot=True,
    )
    handler_timeout_s: int = kind.whole(60, "Time limit of one handler of a cycle.", least=1, most=3600, hot=True)
    handler_failures_max: int = kind.whole(
        5, "Failures of a handler after which it gives up a session.", least=1, most=1000
    )
    requests_max: int = kind.whole(256, "Requests to agents under way at once.", least=1, most=100_000)
    requests_per_agent: int = kind.whole(16, "Requests to one agent under way at once.", least=1, most=10_000)
    request_timeout_s: int = kind.whole(15, "Time limit of a request to an agent.", least=1, most=3600)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Settings that are valid alone but contradict each other."""
        if self.agent_lost_s <= self.agent_suspect_s:
            yield "agent_lost_s", f"{self.agent_lost_s} must be more than agent_suspect_s, {self.agent_suspect_s}"
        if self.agent_suspect_s * 1000 <= self.heartbeat_ms:
            yield "agent_suspect_s", f"{self.agent_suspect_s} s must be more than heartbeat_ms, {self.heartbeat_ms} ms"
        if self.probe_after_max_s < self.probe_after_s:
            yield "probe_after_max_s", f"{self.probe_after_max_s} must not be less than probe_after_s"


def read_label(label: str) -> tuple[str, str]:
    """Name and value of a label, from NAME=VALUE. Raises InvalidInput."""
    key, equals, value = label.partition("=")
    if not equals or not key:
        raise InvalidInput(f"{label[:80]!r} is not NAME=VALUE", hint="use a label such as rack=r01")
    if key.startswith("sokovan."):
        raise InvalidInput(f"{label[:80]!r}: the agent sets these itself", hint="use another name, or an option")
    return key, value


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The agent of this machine, of `sokovan up` and `sokovan agent run`."""

    enabled: bool = kind.switch(
        default=True, meaning="Whether `sokovan up` runs an agent on this machine.", flag="--no-agent"
    )
    name: str = kind.name("", "Name of the agent; if empty, the host name.", flag="--name")
    scaling_group: str = kind.name("default", "Scaling group that it joins.", flag="--scaling-group")
    labels: tuple[str, ...] = kind.texts((), "Its labels, each as NAME=VALUE.", check=read_label, flag="--label")
    fake_gpus: int = kind.whole(0, "Fake GPUs that it reports.", least=0, most=10_000, flag="--fake-gpus")
    gpu_shares: bool = kind.switch(default=False, meaning="Whether GPUs are offered in shares.", flag="--gpu-shares")
    kernel_ports: str = kind.text(
        port_range_text(PORTS_DEFAULT), "Ports leased to kernels.", check=read_port_range, flag="--kernel-ports"
    )
    data_listen: str = kind.text(
        "",
        "HOST:PORT where gateways on other machines reach its kernels; empty: its own address if it has joined.",
        check=lambda text: text and read_listen(text),
        flag="--data-listen",
    )
    shard: str = kind.name("", "Shard of its scaling group that it is in; empty: none.", flag="--shard")
    kernels_max: int = kind.whole(
        0, "Most kernels that it runs at once; 0: 64 for each cpu.", least=0, most=COUNT_MAX, flag="--max-kernels"
    )
    reserve: str = kind.text(
        "", "Kept for the machine, of cpu and mem: cpu=2,mem=8GiB.", check=read_reserve, flag="--reserve"
    )
    accounts: str = kind.text(
        ACCOUNTS_DEFAULT,
        "Numbers of the accounts of kernels, one per user, if the agent runs as root; empty: its own account.",
        check=read_account_range,
    )
    runtime: str = kind.text(
        PROCESS_RUNTIME,
        "How it runs kernels: process, or docker for containers of Docker or Podman.",
        check=read_runtime,
        flag="--runtime",
    )
    engine: str = kind.text(
        "", "Socket of its container engine, such as unix:///run/docker.sock; empty: found.", flag="--engine"
    )
    read_only_root: bool = kind.switch(
        default=True, meaning="Whether containers cannot change the files of their image."
    )
    session_networks: str = kind.text(
        "",
        "Addresses such as 10.213.0.0/16 for a network of each session that is on this machine; empty: none.",
        check=read_network_range,
    )
    device_check_s: int = kind.whole(30, "Interval of the checks of GPUs; 0: none.", least=0, most=3600)


@dataclass(frozen=True, slots=True)
class ApiServerSettings:
    """Port and limits of the API."""

    port: int = kind.whole(
        DEFAULT_PORT, "Port of the API, or the next free one; 0: any.", least=0, most=65_535, flag="--port"
    )
    listen: str = kind.text(
        "",
        "HOST:PORT for clients of other machines, with TLS; empty: the API is on this machine only.",
        check=lambda text: text and read_listen(text),
    )
    workers: int = kind.whole(
        1,
        "Processes of the API of `sokovan server`, each with its part of the limits; set on this machine.",
        least=1,
        most=64,
        flag="--workers",
    )
    allowed_hosts: tuple[str, ...] = kind.texts(
        ("127.0.0.1", "localhost", "[::1]"), "Host names that requests may name; the certificate of the API has them."
    )
    allow_several_users_without_isolation: bool = kind.switch(
        default=False,
        meaning="Let several users share agents without a sandbox, where each can read all files and keys.",
    )
    body_bytes_max: int = kind.whole(1 << 20, "Maximum size of a request.", least=1024, most=1 << 30)
    requests_per_s: int = kind.whole(2000, "Requests a second of one user.", least=1, most=COUNT_MAX)
    requests_burst: int = kind.whole(4000, "Requests of one user at once.", least=1, most=COUNT_MAX)
    reads_at_once: int = kind.whole(
        2, "Reads and dry runs of one user at a time; more wait for their turn.", least=1, most=COUNT_MAX
    )
    failures_per_minute: int = kind.whole(
        10, "Failed authentications a minute from one address.", least=1, most=COUNT_MAX
    )
    connections_max: int = kind.whole(
        4096, "Connections at once; fewer if fewer files may be open.", least=1, most=COUNT_MAX
    )
    connections_per_address_max: int = kind.whole(
        2048, "Connections of one address at once; a new one replaces an idle one.", least=1, most=COUNT_MAX
    )
    request_timeout_s: int = kind.whole(10, "Time for the head of a connection's first request.", least=1, most=3600)
    idle_timeout_s: int = kind.whole(40, "Time for the next request of a connection.", least=1, most=3600)
    body_timeout_s: int = kind.whole(120, "Time for the body of a request.", least=1, most=3600)
    key_cached_ms: int = kind.whole(
        2000, "How long a key is used without being looked up again; a revoked one ends after it.", least=0, most=60_000
    )
    streams_max: int = kind.whole(1000, "Streams (logs, watches, commands) open at once.", least=1, most=COUNT_MAX)
    streams_per_user_max: int = kind.whole(100, "Streams of one user open at once.", least=1, most=COUNT_MAX)
    commands_per_agent_max: int = kind.whole(
        64, "Commands and connections of one user in kernels of one agent at once.", least=1, most=COUNT_MAX
    )
    stream_queue_max: int = kind.whole(1000, "Events that wait for a slow reader of a stream.", least=1, most=COUNT_MAX)
    stream_idle_s: int = kind.whole(15, "Interval of keep-alives on a stream.", least=1, most=3600)
    stream_lifetime_s: int = kind.whole(DAY_S, "Time after which a stream ends.", least=1, most=YEAR_S)


@dataclass(frozen=True, slots=True)
class UploadSettings:
    """Limits of uploads; those of owners hold for all their uploads together."""

    files_max: int = kind.whole(20_000, "Files of one upload.", least=1, most=COUNT_MAX)
    bytes_max: int = kind.whole(4 << 30, "Bytes of one upload.", least=1, most=BYTES_MAX)
    manifest_bytes_max: int = kind.whole(8 << 20, "Size of the list of files of an upload.", least=1024, most=1 << 30)
    owner_bytes_max: int = kind.whole(20 << 30, "Bytes of all uploads of an owner.", least=1, most=BYTES_MAX)
    owner_blobs_max: int = kind.whole(200_000, "Files of all uploads of an owner.", least=1, most=COUNT_MAX)
    retention_s: int = kind.whole(7 * DAY_S, "How long an upload is kept that no session uses.", least=60, most=YEAR_S)


@dataclass(frozen=True, slots=True)
class OutputSettings:
    """Files that sessions leave on each agent; for sessions that start from now on."""

    retention_s: int = kind.whole(
        7 * DAY_S, "How long output is kept after the end of its session.", least=0, most=YEAR_S, hot=True
    )
    session_bytes_max: int = kind.whole(
        10 << 30, "Bytes of output that are kept of a session.", least=0, most=BYTES_MAX, hot=True
    )
    owner_bytes_max: int = kind.whole(
        50 << 30, "Bytes of output that are kept of an owner.", least=0, most=BYTES_MAX, hot=True
    )
    kernel_disk_max: int = kind.whole(
        100 << 30,
        "Bytes of work folder, upload and output beyond which a running kernel is ended; 0: no limit.",
        least=0,
        most=BYTES_MAX,
        hot=True,
    )
    owner_disk_max: int = kind.whole(
        400 << 30,
        "Bytes of all running kernels of an owner on an agent beyond which the largest is ended; 0: no limit.",
        least=0,
        most=BYTES_MAX,
        hot=True,
    )


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """Records in the database; past usage is kept apart, and stays."""

    sessions_s: int = kind.whole(
        90 * DAY_S,
        "How long a session and its history are kept after its end; 0: for ever.",
        least=0,
        most=20 * YEAR_S,
        hot=True,
    )
    sessions_per_user_max: int = kind.whole(
        100_000,
        "Sessions of a user beyond which the oldest that ended are removed sooner; 0: no limit.",
        least=0,
        most=COUNT_MAX,
        hot=True,
    )
    deployments_s: int = kind.whole(
        90 * DAY_S,
        "How long a deployment, its revisions and its history are kept after its end; 0: for ever.",
        least=0,
        most=20 * YEAR_S,
        hot=True,
    )
    audit_s: int = kind.whole(
        365 * DAY_S, "How long audit entries are kept; 0: for ever.", least=0, most=20 * YEAR_S, hot=True
    )


@dataclass(frozen=True, slots=True)
class CopySettings:
    """Limits of one copy out of a session; copies into one are uploads."""

    files_max: int = kind.whole(20_000, "Files of a copy.", least=1, most=1_000_000)
    bytes_max: int = kind.whole(16 << 30, "Bytes of a copy.", least=1, most=BYTES_MAX)


SAME_DATABASE_USER = "same:"


def _database_in(url: str) -> str:
    return url.rpartition("@")[2].partition("?")[0].rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """The database of the server."""

    url: str = kind.url(
        "sqlite:",
        "`sqlite:` for the file in the data folder, `sqlite:///FILE`, or `postgresql://USER:PASSWORD@HOST/NAME`.",
        schemes=("sqlite", "postgresql"),
    )
    api_url: str = kind.url(
        SAME_DATABASE_USER,
        "The same database for the API of `sokovan server`, with a user who may do less; `same:` for `storage.url`.",
        schemes=("same", "postgresql"),
    )
    migration_url: str = kind.url(
        SAME_DATABASE_USER,
        "The same database for `sokovan server migrate`, with the owner of the tables; `same:` for `storage.url`.",
        schemes=("same", "postgresql"),
    )
    pool_size: int = kind.whole(10, "Connections to the database.", least=1, most=1000)
    statement_timeout_s: int = kind.whole(30, "Time limit of a statement.", least=1, most=3600)
    audit_s: int = kind.whole(300, "Interval of the check of all invariants.", least=1, most=YEAR_S)

    @property
    def url_of_api(self) -> str:
        """The address that the API uses."""
        return self.url if self.api_url == SAME_DATABASE_USER else self.api_url

    @property
    def url_of_migration(self) -> str:
        """The address that migrations use."""
        return self.url if self.migration_url == SAME_DATABASE_USER else self.migration_url

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Settings that are valid alone but contradict each other."""
        for name, url in (("api_url", self.api_url), ("migration_url", self.migration_url)):
            databases = {_database_in(one) for one in (self.url, url) if one.startswith("postgresql:")}
            if len(databases) > 1:
                yield name, "must name the same database as url, with another user"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log file of the server."""

    bytes_max: int = kind.whole(5 << 20, "Size at which the log file is rotated.", least=4096, most=BYTES_MAX)
    files_kept: int = kind.whole(3, "Rotated log files that are kept.", least=0, most=1000)


@dataclass(frozen=True, slots=True)
class ConfigSettings:
    """The location of the configuration; read from the local file only."""

    url: str = kind.url(
        "file:",
        "`file:` for this file and its drop-ins, `etcd://HOST:PORT,HOST:PORT` for one that managers share.",
        schemes=("file", "etcd", "etcds"),
    )
    ca_file: str = kind.text("", "File with the CA certificate for `etcds:`.")
    poll_s: int = kind.whole(1, "Interval between checks of the file for changes.", least=1, most=3600)


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The proxy that `sokovan up` runs for deployments."""

    enabled: bool = kind.switch(
        default=True, meaning="Run a proxy on this machine, from the first deployment or request on."
    )
    port: int = kind.whole(
        GATEWAY_PORT, "Port of the gateway, or the next free one; 0: any, as with api.port 0.", least=0, most=65_535
    )
    workers: int = kind.whole(1, "Processes of the proxy.", least=1, most=256)


ROLES = (API_ROLE, COORDINATOR_ROLE, BOTH_ROLES) = ("api", "coordinator", "both")
NO_VALKEY = "none:"


def read_role(role: str) -> str:
    """A role of a manager. Raises InvalidInput."""
    if role not in ROLES:
        raise InvalidInput(f"{role[:80]!r} is not a role", hint=f"use one of {', '.join(ROLES)}")
    return role


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Several managers on one database, of `sokovan server`."""

    role: str = kind.text(
        BOTH_ROLES,
        "What a manager runs: `api`, `coordinator` or `both`. It accepts the links of agents in each role.",
        check=read_role,
        flag="--role",
    )
    keys: str = kind.text("", "Folder of the keys that all managers share; empty: the data folder.")
    managers: tuple[str, ...] = kind.texts(
        (), "HOST:PORT of every manager for agents of other machines, which keep a link to each.", check=read_listen
    )


@dataclass(frozen=True, slots=True)
class ValkeySettings:
    """Messages between managers by Valkey or Redis, not by the database."""

    url: str = kind.url(
        NO_VALKEY,
        "`none:` for messages by the database, or `valkey://USER:PASSWORD@HOST:PORT`, `valkeys:` with TLS.",
        schemes=("none", "valkey", "valkeys", "redis", "rediss"),
    )
    prefix: str = kind.name("sokovan", "Prefix of the channels; clusters that share a server have different ones.")

    @property
    def is_used(self) -> bool:
        """Whether an address is set."""
        return self.url != NO_VALKEY


SECTIONS: dict[str, type] = {
    "scheduler": SchedulerSettings,
    "orchestrator": OrchestratorSettings,
    "agent": AgentSettings,
    "api": ApiServerSettings,
    "proxy": ProxySettings,
    "uploads": UploadSettings,
    "outputs": OutputSettings,
    "retention": RetentionSettings,
    "copies": CopySettings,
    "storage": StorageSettings,
    "log": LogSettings,
    "config": ConfigSettings,
    "cluster": ClusterSettings,
    "valkey": ValkeySettings,
}
