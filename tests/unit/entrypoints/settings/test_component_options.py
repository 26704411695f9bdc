"""Settings as the options of components."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sokovan.adapters.sql.database import DatabaseSettings
from sokovan.api.settings import ApiSettings
from sokovan.domain.owners.outputs import OutputLimits
from sokovan.domain.owners.uploads import UploadLimits
from sokovan.entrypoints.agent import AgentOptions, agent_options_of
from sokovan.entrypoints.settings.component_options import (
    api_settings_of,
    database_settings_of,
    dry_run_limits_of,
    timing_of,
    upload_limits_of,
)
from sokovan.entrypoints.settings.server_settings import ServerSettings, settings_of
from sokovan.orchestrator.sessions.config import Timing
from sokovan.orchestrator.sessions.explain.plan import DryRunLimits
from sokovan.ports.storage import StoreRetention

PEPPER, KEY = b"p" * 32, "t"


def test_the_defaults_of_settings_are_those_of_the_components() -> None:
    usual = ServerSettings()
    # A single server takes over its own lease sooner than managers take over from each other.
    assert replace(timing_of(usual), lease_ttl_s=Timing().lease_ttl_s) == Timing()
    assert api_settings_of(usual, pepper=PEPPER, machine="m") == ApiSettings(pepper=PEPPER, machine="m")
    assert dry_run_limits_of(usual.scheduler) == DryRunLimits()
    assert upload_limits_of(usual.uploads) == UploadLimits()
    assert database_settings_of(usual.storage, data_folder_url="sqlite:///d") == DatabaseSettings("sqlite:///d")
    plain = AgentOptions("ws://m", KEY, root=Path("r"), kernel_ports="20000-29999")
    assert agent_options_of(usual.agent, manager="ws://m", token=KEY, root=Path("r")) == plain


def test_what_is_set_reaches_the_components() -> None:
    settings = settings_of(
        {
            "scheduler": {"short_cycle_ms": 50, "batch_max": 7, "lease_ms": 900},
            "orchestrator": {"agent_suspect_s": 20, "agent_lost_s": 90, "mass_loss_percent": 50, "requests_max": 3},
            "agent": {"labels": ["rack=r01"], "name": "n", "shard": "east", "kernels_max": 3, "reserve": "mem=1MiB"},
            "api": {"stream_idle_s": 3, "key_cached_ms": 500, "allowed_hosts": ["lab"]},
            "outputs": {"retention_s": 60, "session_bytes_max": 1, "owner_bytes_max": 2},
            "retention": {"sessions_s": 3, "sessions_per_user_max": 4, "audit_s": 5},
            "copies": {"files_max": 3, "bytes_max": 4},
            "storage": {"url": "postgresql://h/n", "pool_size": 3},
        }
    )
    timing = timing_of(settings)
    assert (timing.min_interval_s, timing.allocation_batch_max, timing.lease_ttl_s) == (0.05, 7, 0.9)
    assert (timing.heartbeats.suspect_s, timing.heartbeats.lost_after_ms) == (20, 90_000)
    assert (timing.mass_failures.share, timing.requests.concurrent_max) == (0.5, 3)
    api = api_settings_of(settings, pepper=PEPPER, machine="")
    assert (api.streams.idle_s, api.principal_kept_s, api.allowed_hosts) == (3, 0.5, ("lab",))
    assert (api.copies.files_max, api.copies.bytes_max) == (3, 4)
    assert timing.outputs == OutputLimits(60, 1, 2)
    assert timing.records == StoreRetention(3, 4, 5)
    agent = agent_options_of(settings.agent, manager="ws://m", token=KEY, root=Path("r"))
    assert (agent.labels, agent.name) == ({"rack": "r01"}, "n")
    assert (agent.shard, agent.kernels_max, agent.reserve) == ("east", 3, "mem=1MiB")
    database = database_settings_of(settings.storage, data_folder_url="sqlite:///d")
    assert (database.url, database.pool_size) == ("postgresql://h/n", 3)
