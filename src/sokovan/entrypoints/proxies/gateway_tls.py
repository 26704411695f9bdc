"""TLS of a gateway, without which other machines do not reach it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

from sokovan.domain.errors import SokovanError
from sokovan.ports.environment import Clock

# A replaced certificate is in use after this time at the latest.
LOOK_S = 10.0


class GatewayUnencrypted(SokovanError):
    """A gateway for other machines has no TLS, so that keys would be readable."""

    code = "gateway-unencrypted"
    hint = (
        "give --certificate FILE and --key FILE, listen on 127.0.0.1,"
        " or use --allow-unencrypted-listen behind a server that has TLS"
    )


class GatewayCertificateUnusable(SokovanError):
    """Certificate and key of a gateway cannot be read, or do not match."""

    code = "gateway-certificate-unusable"
    hint = "give PEM files: --certificate with the chain, --key with its key, which has no passphrase"


def require_loopback(listener: socket.socket) -> None:
    """Refuse a socket that other machines reach. Raises GatewayUnencrypted."""
    host, port = listener.getsockname()[:2]
    if not ip_address(host.partition("%")[0]).is_loopback:
        raise GatewayUnencrypted(f"{host}:{port} is reached by other machines, and the gateway has no certificate")


class GatewayCertificate:
    """The TLS context of a gateway; it follows the files of certificate and key.

    Raises GatewayCertificateUnusable.
    """

    def __init__(self, chain: Path, key: Path | None) -> None:
        self._chain, self._key = chain, key
        self._version = self._found()
        self.context = self._loaded()

    async def follow(self, clock: Clock, log: Callable[[str], None]) -> None:
        """Load changed files, until cancelled; open connections continue."""
        while True:
            await clock.sleep(LOOK_S)
            try:
                if await asyncio.to_thread(self.renew):
                    log("the gateway has a new certificate")
            except GatewayCertificateUnusable as problem:
                log(f"the gateway keeps its certificate: {problem.args[0]}")

    def renew(self) -> bool:
        """Load the files if they have changed. Raises GatewayCertificateUnusable."""
        found = self._found()
        if found == self._version:
            return False
        self._version = found
        self._loaded()  # files that do not belong together would leave the context without a key
        self._load(self.context)
        return True

    def _found(self) -> tuple[tuple[int, int, int], ...]:
        """The versions of the files; of a file that is missing for a moment, none."""
        return tuple(_version(path) for path in (self._chain, self._key) if path is not None)

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            # With a passphrase, a key that has one is refused instead of asked about.
            context.load_cert_chain(self._chain, self._key, password="")
        except (OSError, ValueError) as error:
            files = self._chain if self._key is None else f"{self._chain} and {self._key}"
            raise GatewayCertificateUnusable(f"cannot use {files}: {error}") from error


def _version(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)
