"""The settings of a proxy before the gateways, independent of its product.

It has TLS, spreads connections over the gateways, and leaves the rest to them: keys, models,
replicas and limits are theirs. Nothing but the paths of clients goes through it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from sokovan.sdk.errors import ClientProblem, InvalidSetting
from sokovan.wire.api.routes import RouteExport

READY_PATH = "/-/ready"
# Every path of clients; those below `/-/` are for programs of the gateway's own machine.
CLIENT_PATHS = ("/v1", "/d")
CONNECT_S, CHECK_S, HEAD_S, IDLE_S = 2, 2, 10, 60
# A gateway ends what takes too long: a request may wait for a replica to start, and then for its first byte.
SILENCE_S = 1800
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}", re.ASCII)
_FILE = re.compile(r"[A-Za-z0-9/._@+:,=~-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; the host of an IPv6 address has no brackets."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_literal(self) -> bool:
        """Whether the host is an IP address."""
        try:
            ip_address(self.host)
        except ValueError:
            return False
        return True

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of its own machine reach it."""
        return self.host == "localhost" or (self.is_literal and ip_address(self.host).is_loopback)


@dataclass(frozen=True, slots=True)
class Gateway:
    """One gateway; `encrypted` if it has TLS itself."""

    address: Address
    encrypted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    """A proxy before the gateways.

    `paths` go through, with all below them. `certificate`, `key` and `ca` are files on its
    machine: the chain and its key for clients, and the authorities of encrypted gateways.
    """

    listen: Address
    gateways: Sequence[Gateway]
    paths: Sequence[str] = CLIENT_PATHS
    certificate: str = ""
    key: str = ""
    ca: str = "/etc/ssl/certs/ca-certificates.crt"


class NoGateway(ClientProblem):
    """No proxy has reported a URL of its gateway."""

    code = "no-gateway"
    hint = "start one with sokovan proxy; one that listens on all addresses needs --advertise https://HOST:PORT"


def front_proxy(
    export: RouteExport,
    *,
    listen: str = "",
    certificate: str = "",
    key: str = "",
    ca: str = "",
    only_routes: bool = False,
) -> FrontProxy:
    """The proxy before all gateways; with `only_routes`, for paths of the routes only.

    Raises InvalidSetting, NoGateway.
    """
    gateways = _gateways(export)
    for file, option in ((certificate, "certificate"), (key, "key"), (ca, "ca")):
        if file and _FILE.fullmatch(file) is None:
            raise InvalidSetting(f"{option}: {file[:80]!r} has spaces, quotes or control characters", hint="rename it")
    if key and not certificate:
        raise InvalidSetting("a key is of no use without its certificate", hint="give both, as PEM files")
    address = address_of(listen or ("0.0.0.0:443" if certificate else "127.0.0.1:8080"))
    if not certificate and not address.is_loopback:
        hint = "give --certificate FILE, or --listen 127.0.0.1:PORT"
        raise InvalidSetting(f"{address.text} is reached by other machines, and has no certificate", hint=hint)
    names = [name for one in export.routes for name in (one.name, one.deployment) if _SEGMENT.fullmatch(name)]
    paths = [f"/d/{name}" for name in dict.fromkeys(names)]
    return FrontProxy(
        listen=address,
        gateways=gateways,
        paths=paths if only_routes else CLIENT_PATHS,
        certificate=certificate,
        key=key,
        **({"ca": ca} if ca else {}),
    )


def address_of(text: str) -> Address:
    """The address in HOST:PORT. Raises InvalidSetting."""
    host, colon, port = text.rpartition(":")
    literal = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if literal else host
    found = Address(host, int(port)) if port.isascii() and port.isdecimal() and len(port) <= 5 else Address("", 0)
    # Brackets and colons go together, and a name has neither.
    is_host = literal == (":" in host) and (found.is_literal or _SEGMENT.fullmatch(host) is not None)
    if not colon or not is_host or not 1 <= found.port <= 65_535:
        raise InvalidSetting(f"{text[:80]!r} is not an address", hint="use HOST:PORT, or [HOST]:PORT for IPv6")
    return found


def _gateways(export: RouteExport) -> list[Gateway]:
    """All gateways; those that only their own machine reaches, if there is no other.

    Raises NoGateway, InvalidSetting.
    """
    known = [_gateway(url) for url in dict.fromkeys(one.url for one in export.gateways if one.url)]
    found = [one for one in known if not one.address.is_loopback] or known
    if not found:
        raise NoGateway("no gateway is known")
    if len({one.encrypted for one in found}) > 1:
        plain = ", ".join(one.address.text for one in found if not one.encrypted)
        raise InvalidSetting(f"some gateways have TLS, and {plain} have not", hint="start all with --certificate FILE")
    return found


def _gateway(url: str) -> Gateway:
    parts = urlsplit(url)
    encrypted = parts.scheme == "https"
    address = parts.netloc if parts.port is not None else f"{parts.netloc}:{443 if encrypted else 80}"
    return Gateway(address_of(address), encrypted)
