"""A front proxy as a configuration of HAProxy, 2.4 or newer."""

from __future__ import annotations

from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.front_proxies.front_proxy import (
    CHECK_S,
    CONNECT_S,
    HEAD_S,
    IDLE_S,
    READY_PATH,
    SILENCE_S,
    FrontProxy,
    Gateway,
)

_DEFAULTS = f"""\
# Written by sokovan route export. Write it again when gateways were added or removed.
defaults
  mode http
  timeout connect {CONNECT_S}s
  timeout check {CHECK_S}s
  timeout http-request {HEAD_S}s
  timeout http-keep-alive {IDLE_S}s
  # The gateways have shorter ones; a request may wait there for a replica to start.
  timeout client {SILENCE_S}s
  timeout server {SILENCE_S}s
  timeout tunnel 1d
  option forwardfor
  option redispatch
  retries 2
  # Events of streams are passed on as they come; without this several are held back and sent together.
  option http-no-delay
"""


def haproxy(front: FrontProxy) -> str:
    """The configuration, for `haproxy -f`. Raises InvalidSetting."""
    if front.key:
        hint = "give --certificate a file with the chain and the key, without --key"
        raise InvalidSetting("HAProxy reads a certificate and its key from one file", hint=hint)
    tls = f" ssl crt {front.certificate} alpn h2,http/1.1" if front.certificate else ""
    exact, below = " ".join(front.paths), " ".join(f"{path}/" for path in front.paths)
    lines = [
        "frontend sokovan",
        f"  bind {front.listen.text}{tls}",
        f"  acl for_clients path {exact}",
        f"  acl for_clients path_beg {below}",
        "  http-request return status 404 unless for_clients",
        "  default_backend gateways",
        "backend gateways",
        "  balance leastconn",
        "  option httpchk",
        f"  http-check send meth GET uri {READY_PATH} ver HTTP/1.1 hdr host gateway",
        "  http-check expect status 200",
        f"  default-server check inter {CHECK_S}s fall 3 rise 2",
        *(_server(number, one, front.ca) for number, one in enumerate(front.gateways, start=1)),
    ]
    return _DEFAULTS + "\n".join(lines) + "\n"


def _server(number: int, gateway: Gateway, ca: str) -> str:
    line = f"  server gateway-{number} {gateway.address.text}"
    if not gateway.encrypted:
        return line
    line += f" ssl verify required ca-file {ca}"
    host = gateway.address.host
    # HAProxy compares names only: of an address, it checks that the authority has signed the certificate.
    return line if gateway.address.is_literal else f"{line} sni str({host}) check-sni {host} verifyhost {host}"
