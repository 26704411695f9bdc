"""Requests for the server itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sokovan.sdk.core.calls import Call, api_path
from sokovan.wire.api.system import EventView, HealthView, ServerSettingsView

if TYPE_CHECKING:
    from sokovan.wire.api.tenancy import WhoamiView


def whoami() -> Call[WhoamiView]:
    """Get the authenticated user and key."""
    from sokovan.wire.api.tenancy import WhoamiView  # noqa: PLC0415  # loads lazily

    return Call(method="GET", path=api_path("whoami"), answer=WhoamiView)


def health() -> Call[HealthView]:
    """Get the health of the server's components."""
    return Call(method="GET", path=api_path("health"), answer=HealthView)


def server_settings() -> Call[ServerSettingsView]:
    """Get the settings in force; administrators only."""
    return Call(method="GET", path=api_path("settings"), answer=ServerSettingsView)


def events() -> Call[EventView]:
    """Stream the events of the server."""
    return Call(method="GET", path=api_path("events"), answer=EventView)
