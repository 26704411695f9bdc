"""Converts settings to the options of the server's components."""

from __future__ import annotations

from dataclasses import asdict

from sokovan.adapters.sql.database import DatabaseSettings
from sokovan.api.settings import ApiSettings, StreamLimits
from sokovan.domain.cluster.agent_health import HealthLimits
from sokovan.domain.lifecycle.retry import RetryDelay
from sokovan.domain.owners.outputs import CopyLimits, OutputLimits
from sokovan.domain.owners.uploads import UploadLimits
from sokovan.entrypoints.settings.server_settings import ServerSettings
from sokovan.entrypoints.settings.setting_sections import (
    ApiServerSettings,
    SchedulerSettings,
    StorageSettings,
    UploadSettings,
)
from sokovan.entrypoints.web.connection_limits import ConnectionLimits
from sokovan.orchestrator.agent_requests import AgentRequestLimits
from sokovan.orchestrator.quarantine import QuarantineLimits
from sokovan.orchestrator.sessions.config import HeartbeatTimeouts, MassFailureGuard, Retention, Timing
from sokovan.orchestrator.sessions.explain.plan import DryRunLimits
from sokovan.ports.storage import StoreRetention

DATA_FOLDER_STORE = "sqlite:"


def timing_of(settings: ServerSettings) -> Timing:
    """Intervals, timeouts and limits of the coordinator."""
    scheduler, one = settings.scheduler, settings.orchestrator
    return Timing(
        min_interval_s=scheduler.short_cycle_ms / 1000,
        long_cycle_s=scheduler.long_cycle_s,
        lease_ttl_s=scheduler.lease_ms / 1000,
        allocation_batch_max=scheduler.batch_max,
        handler_timeout_s=one.handler_timeout_s,
        session_lost_s=one.session_lost_s,
        heartbeats=HeartbeatTimeouts(one.agent_suspect_s, one.agent_lost_s - one.agent_suspect_s),
        mass_failures=MassFailureGuard(
            share=one.mass_loss_percent / 100,
            agents_min=one.mass_loss_agents_min,
            window_s=one.mass_loss_window_s,
            hold_s=one.mass_loss_hold_s,
        ),
        health=HealthLimits(
            sessions=one.agent_failing_sessions,
            window_s=one.agent_failing_window_s,
            probe=RetryDelay(one.probe_after_s * 1000, one.probe_after_max_s * 1000),
            probe_timeout_s=one.probe_timeout_s,
        ),
        retention=Retention(seconds=one.ended_kernels_kept_s, kernels_max=one.ended_kernels_kept_max),
        requests=AgentRequestLimits(
            concurrent_max=one.requests_max, per_agent=one.requests_per_agent, timeout_s=one.request_timeout_s
        ),
        quarantine=QuarantineLimits(failures_max=one.handler_failures_max),
        outputs=OutputLimits(**asdict(settings.outputs)),
        records=StoreRetention(**asdict(settings.retention)),
    )


def api_settings_of(server: ServerSettings, *, pepper: bytes, machine: str) -> ApiSettings:
    """Limits of the API, with its secret and the mark of this machine."""
    settings = server.api
    return ApiSettings(
        pepper=pepper,
        machine=machine,
        several_users_without_isolation=settings.allow_several_users_without_isolation,
        allowed_hosts=settings.allowed_hosts,
        body_bytes_max=settings.body_bytes_max,
        requests_per_s=settings.requests_per_s,
        requests_burst=settings.requests_burst,
        failures_per_minute=settings.failures_per_minute,
        reads_at_once=settings.reads_at_once,
        principal_kept_s=settings.key_cached_ms / 1000,
        streams=StreamLimits(
            streams_max=settings.streams_max,
            streams_per_user_max=settings.streams_per_user_max,
            commands_per_agent_max=settings.commands_per_agent_max,
            queue_max=settings.stream_queue_max,
            idle_s=settings.stream_idle_s,
            lasts_s_max=settings.stream_lifetime_s,
        ),
        copies=CopyLimits(**asdict(server.copies)),
    )


def connection_limits_of(settings: ApiServerSettings) -> ConnectionLimits:
    """Limits of the API's connections."""
    return ConnectionLimits(
        total_max=settings.connections_max,
        per_address_max=settings.connections_per_address_max,
        head_s=settings.request_timeout_s,
        idle_s=settings.idle_timeout_s,
        body_s=settings.body_timeout_s,
    )


def database_settings_of(settings: StorageSettings, *, data_folder_url: str, api: bool = False) -> DatabaseSettings:
    """Address and limits of the database, of the API's user if `api`."""
    url = settings.url_of_api if api else settings.url
    return DatabaseSettings(
        data_folder_url if url == DATA_FOLDER_STORE else url,
        pool_size=settings.pool_size,
        statement_timeout_s=settings.statement_timeout_s,
    )


def dry_run_limits_of(settings: SchedulerSettings) -> DryRunLimits:
    """Limits of dry runs."""
    return DryRunLimits(
        concurrent_max=settings.dry_runs_max,
        waiting_max=settings.dry_runs_waiting_max,
        per_user_max=settings.dry_runs_per_user_max,
        timeout_s=settings.dry_run_timeout_s,
    )


def upload_limits_of(settings: UploadSettings) -> UploadLimits:
    """Limits of uploads; the settings have the same names."""
    return UploadLimits(**asdict(settings))
