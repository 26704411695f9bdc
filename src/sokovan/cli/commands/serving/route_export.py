"""`sokovan route export`: the gateways, as a configuration of another proxy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import DEFAULT_SERVER, ServerOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import as_json, print_data, print_status
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.routes import RouteExport
from sokovan.wire.plain_codec import plain

ExportFormat = Literal["haproxy", "envoy", "traefik", "json"]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class FrontFlags:
    """Flags of the proxy that is configured; files are those of its machine."""

    listen: Annotated[
        str,
        Parameter(help="HOST:PORT; default: 0.0.0.0:443, or 127.0.0.1:8080 without TLS."),
    ] = ""
    certificate: Annotated[str, Parameter(help="PEM file with its certificate chain, for TLS.")] = ""
    key: Annotated[str, Parameter(help="PEM file with the private key, if that is a file of its own.")] = ""
    ca: Annotated[str, Parameter(help="PEM file with the authorities of gateways that have TLS.")] = ""


NO_FRONT = FrontFlags()


def export(
    *,
    to: Annotated[ExportFormat, Parameter(name="--format")],
    deployments: Annotated[tuple[str, ...], Parameter(name="--deployment", negative=())] = (),
    front: FrontFlags = NO_FRONT,
    server: ServerOptions = DEFAULT_SERVER,
) -> int:
    """Write the gateways as a configuration of another proxy.

    The proxy has TLS and spreads requests over the gateways, which check keys and
    choose replicas as before. Replicas are not named: they accept gateways only.
    With --deployment only the paths /d/NAME go through. json prints gateways and
    routes with their endpoints, without secrets. Administrators only.

    For example:
      sokovan route export --format haproxy --certificate /etc/ssl/models.pem
      sokovan route export --format envoy --listen 127.0.0.1:8080
      sokovan route export --format json --deployment qwen

    Parameters
    ----------
    to
        Format.
    deployments
        Only this deployment's route, by name or ID. Repeatable.
    """
    if to == "json" and front != NO_FRONT:
        raise InvalidSetting("--format json has no listener", hint="leave out --listen, --certificate, --key and --ca")
    with server.client() as client:
        if to != "json" and not deployments:
            found = RouteExport(gateways=list(client.deployments.routes.gateways()), routes=[])
        else:
            found = client.deployments.routes.export(*deployments)
    if to == "json":
        print_data(as_json(plain(found)))
        return OK
    print_data(_configuration(found, to, front, only_routes=bool(deployments)).rstrip("\n"))
    for one in found.gateways:
        if not one.url:
            print_status(f"gateway {one.proxy} is left out: start it with --advertise URL, to say where it is reached")
    return OK


def _configuration(found: RouteExport, to: str, front: FrontFlags, *, only_routes: bool) -> str:
    from sokovan.sdk.front_proxies.front_proxy import front_proxy  # noqa: PLC0415  # no other command needs it
    from sokovan.sdk.front_proxies.rendering import FORMATS  # noqa: PLC0415  # no other command needs it

    proxy = front_proxy(
        found, listen=front.listen, certificate=front.certificate, key=front.key, ca=front.ca, only_routes=only_routes
    )
    return FORMATS[to](proxy)
