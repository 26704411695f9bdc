"""`sokovan up`: server, agent and database on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sokovan.cli.commands.options import Flag
from sokovan.cli.errors import usage_error
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_status
from sokovan.wire.api.system import DEFAULT_PORT

_FLEET = re.compile(r"([0-9]{1,6})x([0-9]{1,4})", re.ASCII)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOptions:
    """Options for the GPUs of this machine's agent."""

    fake_gpus: Annotated[int, Parameter(help="Number of fake GPUs of this machine.")] = 0
    gpu_shares: Annotated[
        bool, Parameter(negative=(), help="Offer the GPUs of this machine in shares: --gpus 0.5.")
    ] = False


DEFAULT_GPUS = GpuOptions()


def up(
    *,
    port: int = DEFAULT_PORT,
    data: Path | None = None,
    fake: str | None = None,
    gpus: GpuOptions = DEFAULT_GPUS,
    no_agent: Flag = False,
    name: str = "",
) -> int:
    """Start server, agent and database on this machine.

    Listens on 127.0.0.1 only and keeps its state in your data folder. The first
    start creates an API key and a context for this client. Ctrl-C stops it; the
    data is kept, and sessions that keep running are adopted at the next start.

    For example:
      sokovan up
      sokovan up --fake-gpus 4
      sokovan up --fake 64x8 --no-agent

    Parameters
    ----------
    port
        Port to listen on, or the next free one; default: 7646.
    data
        Folder for its state; default: in your data folder.
    fake
        Add fake agents: 64x8 is 64 agents with 8 GPUs each.
    no_agent
        Do not start an agent on this machine.
    name
        Name of this machine's agent; default: the host name.
    """
    if not 0 <= port < 65536:
        raise usage_error(f"--port {port} is not a port", hint="use 1 to 65535, or 0 for any free port")
    if gpus.fake_gpus < 0:
        raise usage_error(f"--fake-gpus {gpus.fake_gpus} is negative", hint="use 0 or more")
    agents = _fleet(fake)
    from sokovan.entrypoints.embedded.data_folder import data_home, server_of  # noqa: PLC0415  # beside its one use

    running = server_of(data or data_home(os.environ))
    if running is not None:  # checked before the server modules load
        given = {"--fake": fake, "--fake-gpus": gpus.fake_gpus, "--gpu-shares": gpus.gpu_shares}
        given |= {"--no-agent": no_agent, "--name": name}
        _report_running(str(running.get("url")), {"--port": port if port != DEFAULT_PORT else 0, **given})
        return OK
    from sokovan.entrypoints.up import UpOptions, run_up  # noqa: PLC0415  # the whole server loads only here

    options = UpOptions(
        port=port,
        data=data,
        fake_agents=agents,
        fake_gpus=gpus.fake_gpus,
        gpu_shares=gpus.gpu_shares,
        agent=not no_agent,
        name=name,
    )
    return run_up(options, echo=print_status)


def _report_running(url: str, given: Mapping[str, object]) -> None:
    print_status(f"sokovan is already running at {url}; nothing to do")
    left = [option if value is True else f"{option} {value}" for option, value in given.items() if value]
    left = [each for each in left if each != f"--port {url.rpartition(':')[2]}"]
    if left:
        print_status(f"not applied: {', '.join(left)}; stop the server first, or use another folder with --data")


def _fleet(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = _FLEET.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise usage_error(f"--fake {text[:60]!r} is not AGENTSxGPUS", hint="use --fake 64x8")
    return int(found[1]), int(found[2])
