"""Applies the settings of the user and the project to requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sokovan.sdk.config import checked_url, is_token
from sokovan.sdk.endpoint import ServerEndpoint
from sokovan.sdk.errors import NotLoggedIn
from sokovan.sdk.settings import PROJECT_KEYS, ClientSettings, resolve
from sokovan.wire.api.sessions import SessionBody


def endpoint_for(
    url: str | None, token: str | None, *, context: str | None = None, timeout_s: float = 30.0
) -> tuple[ClientSettings, ServerEndpoint]:
    """The settings, and the server they select. Raises NotLoggedIn, InvalidSetting."""
    settings = resolve({"url": url, "token": token, "context": context})
    address, key = settings.credentials()
    if not is_token(key):
        raise NotLoggedIn(f"the key from {settings.origin('token')} is not a valid API key")
    return settings, ServerEndpoint(checked_url(address), key, timeout_s, ca=settings["ca"])


def with_defaults(body: SessionBody, settings: ClientSettings) -> SessionBody:
    """Fill the fields that a request leaves open from the settings."""
    chosen: dict[str, Any] = {
        name: settings[name] for name in PROJECT_KEYS if settings[name] and getattr(body, name) is None
    }
    return replace(body, **chosen)
