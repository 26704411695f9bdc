"""`sokovan proxy`: run a proxy on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.proxy_start import DEFAULT_LISTEN, ProxyCommand, start_proxy


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Options of the gateway's listener."""

    listen: Annotated[str, Parameter(help="Address of the gateway: HOST:PORT, or fd:NUMBER (inherited).")] = (
        DEFAULT_LISTEN
    )
    workers: Annotated[int, Parameter(help="Number of processes, which share the port.")] = 1
    certificate: Annotated[Path | None, Parameter(help="PEM file with the certificate chain, for TLS.")] = None
    key: Annotated[Path | None, Parameter(help="PEM file with its private key, if that is a file of its own.")] = None
    allow_unencrypted_listen: Annotated[
        bool, Parameter(negative=(), help="Let other machines reach the gateway without TLS.")
    ] = False
    advertise: Annotated[str, Parameter(help="URL for load balancers; default: that of --listen.")] = ""


LOCAL_LISTEN = ListenOptions()


def proxy(
    *managers: str,
    gateway: ListenOptions = LOCAL_LISTEN,
    token_file: Path | None = None,
    root: Path | None = None,
    ca: Path | None = None,
) -> int:
    """Run a proxy, which forwards requests to deployments.

    The proxy gets its routes from a manager and keeps them on disk: while all
    managers are away it serves on, also after a restart. If a manager does not
    answer, it goes on with the next. Without any it serves the routes on disk.
    Ctrl-C stops it after the requests under way, at most 30 s. Other machines
    reach it with TLS only; changed certificate files are loaded again.

    For example:
      sokovan proxy http://127.0.0.1:7646 --token-file proxy.token --workers 4
      sokovan proxy https://10.0.0.1:7656 --token-file proxy.token --ca ca.pem
      sokovan proxy --listen 0.0.0.0:7648 --certificate chain.pem --key key.pem

    Parameters
    ----------
    managers
        URLs of managers of one cluster: http[s]://HOST:PORT.
    token_file
        File with the token for proxies. [env: SOKOVAN_PROXY_TOKEN]
    root
        Folder for routes and usage; default: in the user's data folder.
    ca
        CA certificate of the cluster, for https and other machines.
    """
    command = ProxyCommand(
        managers=managers,
        listen=gateway.listen,
        workers=gateway.workers,
        token_file=token_file,
        root=root,
        ca=ca,
        certificate=gateway.certificate,
        key=gateway.key,
        unencrypted=gateway.allow_unencrypted_listen,
        advertise=gateway.advertise,
    )
    return start_proxy(command)
