"""The requests about the system itself."""

from __future__ import annotations

from sokovan.sdk.core import system_calls as calls
from sokovan.wire.api.system import EventView, HealthView, ServerSettingsView, WhoamiView


def test_each_has_its_path_and_its_answer() -> None:
    assert (calls.whoami().path, calls.whoami().answer) == ("/api/v1/whoami", WhoamiView)
    assert (calls.health().path, calls.health().answer) == ("/api/v1/health", HealthView)
    assert (calls.server_settings().path, calls.server_settings().answer) == ("/api/v1/settings", ServerSettingsView)
    assert (calls.events().path, calls.events().answer) == ("/api/v1/events", EventView)


def test_the_audit_log_is_read_with_its_filters() -> None:
    call = calls.audit_log({"who": "ada", "target": None}, limit=5)
    assert (call.path, call.query) == ("/api/v1/audit-log", {"who": "ada", "limit": "5"})
