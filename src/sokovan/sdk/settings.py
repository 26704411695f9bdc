"""What the client goes by, and where each value comes from.

A flag wins over the environment, the environment over the project's file, that
over the context, and the context over the default. A key is only ever sent to the
server it belongs to: an address given by hand does not get the key of a context.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sokovan.sdk.config import ClientConfig, checked_url, config_path, read_config
from sokovan.sdk.errors import InvalidSetting, NotLoggedIn

DEFAULT_URL = "http://127.0.0.1:7646"
PROJECT_FILE = ".sokovan.toml"
# What a project may say; where it is sent and with which key is not among it.
PROJECT_KEYS = ("queue", "image", "group", "scaling_group")
VARIABLES = {
    "context": "SOKOVAN_CONTEXT",
    "url": "SOKOVAN_URL",
    "token": "SOKOVAN_TOKEN",
    "queue": "SOKOVAN_QUEUE",
    "image": "SOKOVAN_IMAGE",
    "group": "SOKOVAN_GROUP",
    "scaling_group": "SOKOVAN_SCALING_GROUP",
    "output": "SOKOVAN_OUTPUT",
}
DEFAULTS = {"url": DEFAULT_URL}


@dataclass(frozen=True, slots=True)
class Setting:
    """One value and where it comes from; empty means: not set."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Every setting of the client by its name."""

    by_name: Mapping[str, Setting]

    def __getitem__(self, name: str) -> str:
        return self.by_name[name].value

    def origin(self, name: str) -> str:
        """Where a value comes from, in words."""
        return self.by_name[name].origin

    def credentials(self) -> tuple[str, str]:
        """Address and key. Raises NotLoggedIn without a key."""
        if not self["token"]:
            raise NotLoggedIn(f"no key is known for {self['url']}")
        return self["url"], self["token"]


def resolve(
    flags: Mapping[str, str | None] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> ClientSettings:
    """The settings for a client that runs in `folder`. Raises InvalidSetting."""
    given = os.environ if environment is None else environment
    layers = [
        _from_flags(flags or {}),
        _from_environment(given),
        _from_project(Path.cwd() if folder is None else folder),
    ]
    path = config_path(given)
    found = {name: _first(name, layers) for name in VARIABLES}
    found["context"], context = _chosen(read_config(path), found["context"], path)
    found["url"], found["token"] = _address_and_key(found["url"], found["token"], context)
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
    set_ones = {name: variable for name, variable in VARIABLES.items() if environment.get(variable)}
    return {name: Setting(name, environment[variable], variable) for name, variable in set_ones.items()}


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
                f"{path}: {name} is not a text that a project may set", hint=f"it may set {', '.join(PROJECT_KEYS)}"
            )
    return {name: Setting(name, value, str(path)) for name, value in document.items() if value}


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The context in use: what it says, and how to name it as an origin."""

    url: str = ""
    token: str = ""
    origin: str = ""


def _chosen(config: ClientConfig, asked: Setting | None, path: Path) -> tuple[Setting | None, _Chosen]:
    if asked is None and config.current in config.contexts:
        asked = Setting("context", config.current, str(path))
    if asked is None:
        return None, _Chosen()
    if asked.value not in config.contexts:
        known = ", ".join(sorted(config.contexts)) or "none"
        raise InvalidSetting(
            f"{asked.origin} names the context {asked.value!r}, which {path} does not have",
            hint=f"known are: {known}; add one with sokovan context add NAME URL",
        )
    context = config.contexts[asked.value]
    return asked, _Chosen(context.url.rstrip("/"), context.token, f"context {asked.value} in {path}")


def _address_and_key(
    url: Setting | None, token: Setting | None, context: _Chosen
) -> tuple[Setting | None, Setting | None]:
    if url is not None:
        url = Setting("url", checked_url(url.value), url.origin)
    elif context.url:
        url = Setting("url", checked_url(context.url), context.origin)
    same = url is not None and url.value == context.url
    if token is None and same and context.token:
        token = Setting("token", context.token, context.origin)
    return url, token
