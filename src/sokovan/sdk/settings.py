"""Settings of the client, each with its origin.

Precedence: flag, environment, project file, context, default. A key is sent only to
the server it belongs to: an address from a flag or variable does not get the key of
a context.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sokovan.sdk.config import ClientConfig, checked_url, config_path, is_loopback, read_config
from sokovan.sdk.errors import InsecureAddress, InvalidSetting, NotLoggedIn
from sokovan.wire.api.system import DEFAULT_PORT

DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
PROJECT_FILE = ".sokovan.toml"
# Keys a project file may set; address and key are not among them, for safety.
PROJECT_KEYS = ("queue", "image", "group", "scaling_group")
VARIABLES = {
    "context": "SOKOVAN_CONTEXT",
    "url": "SOKOVAN_URL",
    "token": "SOKOVAN_TOKEN",
    "ca": "SOKOVAN_CA",
    "queue": "SOKOVAN_QUEUE",
    "image": "SOKOVAN_IMAGE",
    "group": "SOKOVAN_GROUP",
    "scaling_group": "SOKOVAN_SCALING_GROUP",
    "output": "SOKOVAN_FORMAT",
    "plain_http": "SOKOVAN_PLAIN_HTTP",
}
# The value of `plain_http` that lets a key be sent without encryption.
ALLOW = "allow"
DEFAULTS = {"url": DEFAULT_URL}


@dataclass(frozen=True, slots=True)
class Setting:
    """One value and its origin; an empty value means not set."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """All settings of the client by name."""

    by_name: Mapping[str, Setting]

    def __getitem__(self, name: str) -> str:
        return self.by_name[name].value

    def origin(self, name: str) -> str:
        """Origin of a value, for messages."""
        return self.by_name[name].origin

    def credentials(self) -> tuple[str, str]:
        """Address and API key. Raises NotLoggedIn without a key, InsecureAddress."""
        if not self["token"]:
            raise NotLoggedIn(f"no API key is known for {self['url']}")
        if self["url"].startswith("http:") and not is_loopback(self["url"]) and self["plain_http"] != ALLOW:
            raise InsecureAddress(f"{self['url']} is not encrypted, and anyone on the way could read the API key")
        return self["url"], self["token"]


def resolve(
    flags: Mapping[str, str | None] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> ClientSettings:
    """Resolve the settings of a client that runs in `folder`. Raises InvalidSetting."""
    given = os.environ if environment is None else environment
    layers = [
        _from_flags(flags or {}),
        _from_environment(given),
        _from_project(Path.cwd() if folder is None else folder),
    ]
    path = config_path(given)
    found = {name: _first(name, layers) for name in VARIABLES}
    found["context"], context = _selected(read_config(path), found["context"], path)
    found["url"], found["token"] = _address_and_key(found["url"], found["token"], context)
    if found["ca"] is None and context.ca and found["url"] is not None and found["url"].value == context.url:
        found["ca"] = Setting("ca", context.ca, context.origin)
    return ClientSettings(
        {name: setting or Setting(name, DEFAULTS.get(name, ""), "default") for name, setting in found.items()}
    )


_Layer = Mapping[str, Setting]


def _first(name: str, layers: list[_Layer]) -> Setting | None:
    return next((layer[name] for layer in layers if name in layer), None)


def _from_flags(flags: Mapping[str, str | None]) -> _Layer:
    options = {name: f"--{name.replace('_', '-')}" for name in flags}
    return {name: Setting(name, value, options[name]) for name, value in flags.items() if value}


def _from_environment(environment: Mapping[str, str]) -> _Layer:
    found = {name: variable for name, variable in VARIABLES.items() if environment.get(variable)}
    return {name: Setting(name, environment[variable], variable) for name, variable in found.items()}


def _from_project(folder: Path) -> _Layer:
    path = next((each / PROJECT_FILE for each in (folder, *folder.parents) if (each / PROJECT_FILE).is_file()), None)
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidSetting(f"cannot read {path}: {error}") from error
    for name, value in document.items():
        if name not in PROJECT_KEYS or not isinstance(value, str):
            raise InvalidSetting(
                f"{path}: {name} is not a string that a project file may set",
                hint=f"it may set {', '.join(PROJECT_KEYS)}",
            )
    return {name: Setting(name, value, str(path)) for name, value in document.items() if value}


@dataclass(frozen=True, slots=True)
class _SelectedContext:
    """Values of the selected context, and its name as an origin."""

    url: str = ""
    token: str = ""
    ca: str = ""
    origin: str = ""


def _selected(config: ClientConfig, named: Setting | None, path: Path) -> tuple[Setting | None, _SelectedContext]:
    if named is None and config.current in config.contexts:
        named = Setting("context", config.current, str(path))
    if named is None:
        return None, _SelectedContext()
    if named.value not in config.contexts:
        known = ", ".join(sorted(config.contexts)) or "none"
        raise InvalidSetting(
            f"{named.origin} names the context {named.value!r}, which {path} does not have",
            hint=f"known contexts: {known}; add one with sokovan context add NAME URL",
        )
    context = config.contexts[named.value]
    return named, _SelectedContext(
        context.url.rstrip("/"), context.token, context.ca, f"context {named.value} in {path}"
    )


def _address_and_key(
    url: Setting | None, token: Setting | None, context: _SelectedContext
) -> tuple[Setting | None, Setting | None]:
    if url is not None:
        url = Setting("url", checked_url(url.value), url.origin)
    elif context.url:
        url = Setting("url", checked_url(context.url), context.origin)
    same = url is not None and url.value == context.url
    if token is None and same and context.token:
        token = Setting("token", context.token, context.origin)
    return url, token
