"""The client's configuration file: the known servers and the API key for each.

    current = "local"

    [contexts.local]
    url = "http://127.0.0.1:7646"
    token = "sk-..."

A context may have `ca`, the file with the certificate authority of its server.
It holds keys, so it is written atomically and is readable by its owner only.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from sokovan.sdk.errors import InvalidSetting

NAME_MAX = 64
TOKEN_MAX = 512
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_HEADING = "# Written by sokovan; comments are not kept. See: sokovan context --help\n"


@dataclass(frozen=True, slots=True)
class Context:
    """One server and its API key; `ca` is the file of its certificate authority."""

    url: str
    token: str = ""
    ca: str = ""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """All contexts, and the name of the current one."""

    contexts: Mapping[str, Context] = field(default_factory=dict)
    current: str = ""


def config_path(environment: Mapping[str, str] | None = None) -> Path:
    """Path of the file: under XDG_CONFIG_HOME, or under ~/.config."""
    given = os.environ if environment is None else environment
    home = given.get("XDG_CONFIG_HOME", "")
    # The specification says to ignore a relative XDG_CONFIG_HOME.
    folder = (
        Path(home) if home and Path(home).is_absolute() else Path(given.get("HOME") or "~").expanduser() / ".config"
    )
    return folder / "sokovan" / "config.toml"


def read_config(path: Path) -> ClientConfig:
    """Read the file; an empty configuration if there is none. Raises InvalidSetting."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ClientConfig()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(f"{path} is not TOML: {error}") from error
    contexts = document.get("contexts", {})
    current = document.get("current", "")
    if not isinstance(contexts, dict) or not isinstance(current, str):
        raise InvalidSetting(f"{path}: contexts must be a table and current a string")
    return ClientConfig({name: _context(path, name, value) for name, value in contexts.items()}, current)


def save_context(
    name: str, url: str, token: str, *, ca: str = "", make_current: bool = True, path: Path | None = None
) -> ClientConfig:
    """Add or replace one context; returns the new configuration."""
    file = path or config_path()
    known = read_config(file)
    contexts = {**known.contexts, checked_context_name(name): Context(checked_url(url), token, ca)}
    current = name if make_current or not known.current else known.current
    return write_config(ClientConfig(contexts, current), file)


def use_context(name: str, *, path: Path | None = None) -> ClientConfig:
    """Make a context the current one."""
    file = path or config_path()
    known = read_config(file)
    _require(name, known)
    return write_config(replace(known, current=name), file)


def remove_context(name: str, *, path: Path | None = None) -> ClientConfig:
    """Remove a context; if it was the current one, there is none afterwards."""
    file = path or config_path()
    known = read_config(file)
    _require(name, known)
    contexts = {each: context for each, context in known.contexts.items() if each != name}
    return write_config(ClientConfig(contexts, "" if known.current == name else known.current), file)


def write_config(config: ClientConfig, path: Path) -> ClientConfig:
    """Write the file atomically, readable by its owner only."""
    import tempfile  # noqa: PLC0415  # only needed for writing

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp creates a file of mode 0600; the rename is atomic.
        descriptor, temporary = tempfile.mkstemp(prefix=".config-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(_text(config))
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InvalidSetting(
            f"cannot write {path}: {error.strerror or error}", hint="make its folder writable, or set XDG_CONFIG_HOME"
        ) from error
    return config


def checked_context_name(name: str) -> str:
    """Validate the name of a context. Raises InvalidSetting."""
    if len(name) > NAME_MAX or _NAME.fullmatch(name) is None:
        raise InvalidSetting(
            f"{name[:NAME_MAX]!r} is not a valid context name",
            hint=f"use 1 to {NAME_MAX} letters, digits and . _ - starting with a letter or digit",
        )
    return name


def checked_url(url: str) -> str:
    """Validate a server URL and strip its trailing slash. Raises InvalidSetting."""
    scheme, separator, rest = url.partition("://")
    host = rest.partition("/")[0]
    if (
        not separator
        or scheme not in {"http", "https"}
        or not host
        or "@" in host
        or not url.isprintable()
        or " " in url
    ):
        raise InvalidSetting(
            f"{url[:200]!r} is not the URL of a server", hint="write it as http://HOST:PORT or https://HOST"
        )
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Whether the address is of this machine."""
    host = urlsplit(url).hostname or ""
    return host in {"localhost", "::1"} or is_loopback_address(host)


def is_loopback_address(host: str) -> bool:
    """Whether it is a number of the loopback network; `127.0.0.1.example.org` is not."""
    numbers = host.split(".")
    return len(numbers) == 4 and numbers[0] == "127" and all(one.isdecimal() for one in numbers)  # IPv4


def is_token(text: str) -> bool:
    """Whether it can be a token: printable ASCII, which an HTTP header can carry."""
    return 0 < len(text) <= TOKEN_MAX and text.isascii() and text.isprintable() and " " not in text


def _context(path: Path, name: str, value: object) -> Context:
    if not isinstance(value, dict):
        raise InvalidSetting(f"{path}: contexts.{name} must be a table")
    url, token, ca = value.get("url", ""), value.get("token", ""), value.get("ca", "")
    if not isinstance(url, str) or not isinstance(token, str) or not isinstance(ca, str) or not url:
        raise InvalidSetting(f"{path}: contexts.{name} needs url, and url, token and ca must be strings")
    return Context(url, token, ca)


def _require(name: str, config: ClientConfig) -> None:
    if name not in config.contexts:
        known = ", ".join(sorted(config.contexts)) or "none"
        raise InvalidSetting(
            f"there is no context {name!r}", hint=f"known contexts: {known}; add one with sokovan context add NAME URL"
        )


def _text(config: ClientConfig) -> str:
    lines = [_HEADING]
    if config.current:
        lines.append(f"current = {_quoted(config.current)}\n")
    for name, context in sorted(config.contexts.items()):
        lines.append(f"\n[contexts.{_quoted(name)}]\nurl = {_quoted(context.url)}\ntoken = {_quoted(context.token)}\n")
        lines += [f"ca = {_quoted(context.ca)}\n"] if context.ca else []
    return "".join(lines)


def _quoted(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in escaped) + '"'
