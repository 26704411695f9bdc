"""`sokovan up`: everything on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from sokovan.cli.commands.options import Flag
from sokovan.cli.errors import usage_error
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_status

PORT = 7646
_FLEET = re.compile(r"([0-9]{1,6})x([0-9]{1,4})", re.ASCII)


def up(
    *,
    port: int = PORT,
    data: Path | None = None,
    fake: str | None = None,
    fake_gpus: int = 0,
    no_agent: Flag = False,
    name: str = "",
) -> int:
    """Run everything on this machine: server, agent, store.

    It listens on 127.0.0.1 only, keeps its state in your data folder, makes a key for you the first time, and makes
    itself the context of this client. Ctrl-C stops it; the data stays, and sessions that kept running are found again.

    For example:
      sokovan up
      sokovan up --fake-gpus 4
      sokovan up --fake 64x8 --no-agent

    Parameters
    ----------
    port
        The port; the next free one, if it is taken.
    data
        The folder for its state; otherwise that of your user.
    fake
        Pretend machines, as 64x8: 64 machines of 8 GPUs in racks, whose kernels are simulated.
    fake_gpus
        Pretend that this machine has so many GPUs.
    no_agent
        Do not run kernels on this machine.
    name
        What the agent of this machine is called; otherwise after the machine.
    """
    if not 0 <= port < 65536:
        raise usage_error(
            f"--port {port} is not a port", hint="write a number from 1 to 65535, or 0 for any that is free"
        )
    if fake_gpus < 0:
        raise usage_error(f"--fake-gpus {fake_gpus} is negative", hint="write 0 or more")
    agents = _fleet(fake)
    from sokovan.entrypoints.embedded.data_folder import data_home, server_of  # noqa: PLC0415  # beside its one use

    about = server_of(data or data_home(os.environ))
    if about is not None:  # known before the whole server is loaded
        said = {"--fake": fake, "--fake-gpus": fake_gpus, "--no-agent": no_agent, "--name": name}
        _tell_already_up(str(about.get("url")), {"--port": port if port != PORT else 0, **said})
        return OK
    from sokovan.entrypoints.up import UpOptions, run_up  # noqa: PLC0415  # the whole server loads only here

    options = UpOptions(port=port, data=data, fake_agents=agents, fake_gpus=fake_gpus, agent=not no_agent, name=name)
    return run_up(options, echo=print_status)


def _tell_already_up(url: str, said: Mapping[str, object]) -> None:
    print_status(f"sokovan is up already at {url}; nothing to do")
    left = [option if value is True else f"{option} {value}" for option, value in said.items() if value]
    left = [each for each in left if each != f"--port {url.rpartition(':')[2]}"]
    if left:
        print_status(f"not applied: {', '.join(left)}; stop the server first, or name another folder with --data")


def _fleet(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = _FLEET.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise usage_error(f"--fake {text[:60]!r} is not MACHINESxGPUS", hint="write --fake 64x8")
    return int(found[1]), int(found[2])
