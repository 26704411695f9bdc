"""Starts a proxy on this machine; needs no parser of commands."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from sokovan.cli.errors import usage_error
from sokovan.cli.output import print_status
from sokovan.sdk.config import is_loopback
from sokovan.wire.api.system import GATEWAY_PORT

DEFAULT_LISTEN = f"127.0.0.1:{GATEWAY_PORT}"
WORKERS_MAX = 256
_GATEWAY_URL = re.compile(r"https?://([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyCommand:
    """The options of `sokovan proxy`, as they were given."""

    managers: tuple[str, ...] = ()
    listen: str = DEFAULT_LISTEN
    workers: int = 1
    token_file: Path | None = None
    root: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    unencrypted: bool = False
    advertise: str = ""


def start_proxy(command: ProxyCommand) -> int:
    """Run a proxy until it is stopped; its exit code."""
    from sokovan.entrypoints.proxies.proxy_process import ProxyOptions, run_proxy  # noqa: PLC0415  # the proxy loads only here

    for manager in command.managers:
        _require_manager(manager, command.ca)
    if not 1 <= command.workers <= WORKERS_MAX:
        raise usage_error(f"{command.workers} is not a number of processes", hint=f"use 1 to {WORKERS_MAX}")
    if command.key is not None and command.certificate is None:
        raise usage_error("--key is of no use without --certificate", hint="give both, as PEM files")
    host, port, descriptor = _address(command.listen)
    options = ProxyOptions(
        managers=command.managers,
        token=_token(command.token_file) if command.managers else "",
        root=command.root or _own_root(),
        host=host,
        port=port,
        descriptor=descriptor,
        workers=command.workers,
        authority=command.ca,
        certificate=command.certificate,
        key=command.key,
        unencrypted=command.unencrypted,
        advertised=_advertised(command.advertise),
    )
    return run_proxy(options, print_status)


def plain_proxy(words: list[str]) -> int:
    """Run the proxy of a server: its manager, then options and their values.

    They are those of `sokovan proxy`, and need no parser, whose load takes as long as the rest
    of the start.
    """
    manager, *rest = words
    given = dict(zip(rest[::2], rest[1::2], strict=True))
    command = ProxyCommand(
        managers=(manager,) if manager else (),
        listen=given["--listen"],
        workers=int(given["--workers"]),
        token_file=Path(given["--token-file"]),
        root=Path(given["--root"]),
        ca=Path(given["--ca"]) if "--ca" in given else None,
    )
    return start_proxy(command)


def _require_manager(manager: str, ca: Path | None) -> None:
    if not manager.startswith(("http://", "https://")):
        raise usage_error(f"{manager[:200]!r} is not the URL of a manager", hint="use http://HOST:PORT")
    if manager.startswith("http:") and not is_loopback(manager):
        hint = "use https://HOST:PORT, as api.listen of the server has it, with --ca FILE"
        raise usage_error(f"{manager[:200]!r} would get the token of this proxy unencrypted", hint=hint)
    if ca is not None and manager.startswith("https:") and not ca.is_file():
        raise usage_error(f"{ca} is not a file", hint="copy tls/authority.pem of the server's folder of keys")


def _own_root() -> Path:
    from sokovan.entrypoints.embedded.data_folder import data_home  # noqa: PLC0415  # loads only here

    return data_home(os.environ) / "proxy"


def _advertised(text: str) -> str:
    """The URL of the gateway for other programs: scheme, host and port."""
    if text and _GATEWAY_URL.fullmatch(text) is None:
        raise usage_error(f"{text[:200]!r} is not the URL of a gateway", hint="use --advertise https://HOST:PORT")
    return text


def _address(text: str) -> tuple[str, int, int | None]:
    """Host, port and descriptor of an address."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise usage_error(f"{text[:200]!r} is not an address", hint="use --listen HOST:PORT")
    return ("", 0, int(port)) if host == "fd" else (host.strip("[]"), int(port), None)


def _token(file: Path | None) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip() if file else os.environ.get("SOKOVAN_PROXY_TOKEN", "")
    except (OSError, UnicodeDecodeError) as error:
        raise usage_error(f"cannot read the token from {file}: {error}", hint="check --token-file") from error
    if not token:
        raise usage_error("no token for proxies given", hint="use --token-file FILE, or set SOKOVAN_PROXY_TOKEN")
    return token
