"""The requests about the system itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sokovan.sdk.core.calls import Call, api_path
from sokovan.wire.api.system import EventView, HealthView

if TYPE_CHECKING:
    from sokovan.wire.api.tenancy import WhoamiView


def whoami() -> Call[WhoamiView]:
    """Who the caller is."""
    from sokovan.wire.api.tenancy import WhoamiView  # noqa: PLC0415  # few clients ask

    return Call(method="GET", path=api_path("whoami"), answer=WhoamiView)


def health() -> Call[HealthView]:
    """Whether the parts of the system work."""
    return Call(method="GET", path=api_path("health"), answer=HealthView)


def events() -> Call[EventView]:
    """A stream: what happens, as it happens."""
    return Call(method="GET", path=api_path("events"), answer=EventView)
