"""`sokovan proxy`: run a proxy on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from sokovan.cli.errors import usage_error
from sokovan.cli.output import print_status
from sokovan.sdk.config import is_loopback
from sokovan.wire.api.system import GATEWAY_PORT

WORKERS_MAX = 256


def proxy(
    manager: str = "",
    /,
    *,
    listen: str = f"127.0.0.1:{GATEWAY_PORT}",
    workers: int = 1,
    token_file: Path | None = None,
    root: Path | None = None,
    ca: Path | None = None,
) -> int:
    """Run a proxy, which forwards requests to deployments.

    The proxy gets its routes from the manager and keeps them on disk: while the
    manager is away it serves on, also after a restart. Without a manager it serves
    the routes on disk. Ctrl-C stops it after the requests under way, at most 30 s.

    For example:
      sokovan proxy http://127.0.0.1:7646 --token-file proxy.token --workers 4
      sokovan proxy https://10.0.0.1:7656 --token-file proxy.token --ca ca.pem

    Parameters
    ----------
    manager
        URL of the manager's API: http://HOST:PORT or https://HOST:PORT.
    listen
        Address of the gateway: HOST:PORT, or fd:NUMBER (inherited).
    workers
        Number of processes, which share the port.
    token_file
        File with the token for proxies. [env: SOKOVAN_PROXY_TOKEN]
    root
        Folder for routes and usage; default: in the user's data folder.
    ca
        File with the authority of the cluster, for a manager with https.
    """
    from sokovan.entrypoints.proxies.proxy_process import ProxyOptions, run_proxy  # noqa: PLC0415  # the proxy loads only here

    if manager and not manager.startswith(("http://", "https://")):
        raise usage_error(f"{manager[:200]!r} is not the URL of a manager", hint="use http://HOST:PORT")
    if manager.startswith("http:") and not is_loopback(manager):
        hint = "use https://HOST:PORT, as api.listen of the server has it, with --ca FILE"
        raise usage_error(f"{manager[:200]!r} would get the token of this proxy unencrypted", hint=hint)
    if ca is not None and manager.startswith("https:") and not ca.is_file():
        raise usage_error(f"{ca} is not a file", hint="copy tls/authority.pem of the server's folder of keys")
    if not 1 <= workers <= WORKERS_MAX:
        raise usage_error(f"{workers} is not a number of processes", hint=f"use 1 to {WORKERS_MAX}")
    host, port, descriptor = _address(listen)
    options = ProxyOptions(
        manager=manager,
        token=_token(token_file) if manager else "",
        root=root or _own_root(),
        host=host,
        port=port,
        descriptor=descriptor,
        workers=workers,
        authority=ca,
    )
    return run_proxy(options, print_status)


def plain_proxy(words: list[str]) -> int:
    """Run the proxy of a server: its manager, then options and their values.

    They are those of `sokovan proxy`, and need no parser, whose load takes as long as the rest
    of the start.
    """
    manager, *rest = words
    given = dict(zip(rest[::2], rest[1::2], strict=True))
    return proxy(
        manager,
        listen=given["--listen"],
        workers=int(given["--workers"]),
        token_file=Path(given["--token-file"]),
        root=Path(given["--root"]),
        ca=Path(given["--ca"]) if "--ca" in given else None,
    )


def _own_root() -> Path:
    from sokovan.entrypoints.embedded.data_folder import data_home  # noqa: PLC0415  # loads only here

    return data_home(os.environ) / "proxy"


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
