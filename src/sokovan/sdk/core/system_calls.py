"""Requests for the server itself."""

from __future__ import annotations

from typing import TypedDict

from sokovan.sdk.core.calls import PAGE_MAX, SEEN_HEADER, Call, api_path, filters_query
from sokovan.wire.api.system import (
    AuditChainView,
    AuditEntryPage,
    EventView,
    HealthView,
    ServerSettingsView,
    WhoamiView,
)


def whoami() -> Call[WhoamiView]:
    """Get the authenticated user and key."""
    return Call(method="GET", path=api_path("whoami"), answer=WhoamiView)


def health() -> Call[HealthView]:
    """Get the health of the server's components."""
    return Call(method="GET", path=api_path("health"), answer=HealthView)


def server_settings() -> Call[ServerSettingsView]:
    """Get the settings in force; administrators only."""
    return Call(method="GET", path=api_path("settings"), answer=ServerSettingsView)


def events(*, seen: str = "") -> Call[EventView]:
    """Stream the events of the server, starting after `seen`."""
    headers = {SEEN_HEADER: seen} if seen else {}
    return Call(method="GET", path=api_path("events"), answer=EventView, headers=headers)


class AuditOptions(TypedDict, total=False):
    """Filters of the audit log; `action` is one, or the first part of several."""

    who: str | None
    action: str | None
    target: str | None


def audit_log(
    options: AuditOptions | None = None, *, limit: int = PAGE_MAX, cursor: str | None = None
) -> Call[AuditEntryPage]:
    """Get one page of the audit log, newest first. Raises InvalidSetting."""
    parameters = filters_query("entries", options or {}, AuditOptions, limit=limit, cursor=cursor)
    return Call(method="GET", path=api_path("audit-log"), answer=AuditEntryPage, query=parameters)


def audit_chain() -> Call[AuditChainView]:
    """Check that no entry of the audit log was changed; administrators only."""
    return Call(method="GET", path=api_path("audit-log", "chain"), answer=AuditChainView)
