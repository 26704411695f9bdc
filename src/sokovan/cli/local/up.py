"""`sokovan up`: server, agent and database on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sokovan.cli.errors import CommandError, usage_error
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_data, print_status
from sokovan.wire.api.system import DEFAULT_PORT

_FLEET = re.compile(r"([0-9]{1,6})x([0-9]{1,4})", re.ASCII)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """Options for this machine's agent."""

    fake_gpus: Annotated[int, Parameter(help="Number of fake GPUs of this machine.")] = 0
    gpu_shares: Annotated[
        bool, Parameter(negative=(), help="Offer the GPUs of this machine in shares: --gpus 0.5.")
    ] = False
    no_agent: Annotated[bool, Parameter(negative=(), help="Do not start an agent on this machine.")] = False
    name: Annotated[str, Parameter(help="Name of this machine's agent; default: the host name.")] = ""
    kernel_ports: Annotated[str, Parameter(help="Ports leased to kernels; default: 20000-29999.")] = ""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundOptions:
    """Options that run the server in the background; at most one is given."""

    detach: Annotated[
        bool,
        Parameter(name=["--detach", "-d"], negative=(), help="Run in the background; return when the server is ready."),
    ] = False
    install_service: Annotated[
        bool, Parameter(negative=(), help="Install this command as a systemd user service; start it.")
    ] = False
    uninstall_service: Annotated[bool, Parameter(negative=(), help="Stop and remove that service.")] = False


DEFAULT_MACHINE = MachineOptions()
FOREGROUND = BackgroundOptions()


def up(
    *,
    port: int = DEFAULT_PORT,
    data: Path | None = None,
    fake: str | None = None,
    machine: MachineOptions = DEFAULT_MACHINE,
    background: BackgroundOptions = FOREGROUND,
) -> int:
    """Start server, agent and database on this machine.

    Listens on 127.0.0.1 only and keeps its state in your data folder. The first
    start creates an API key and a context for this client. Ctrl-C stops it; the
    data is kept, and sessions that keep running are adopted at the next start.

    For example:
      sokovan up
      sokovan up --detach
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
    """
    if not 0 <= port < 65536:
        raise usage_error(f"--port {port} is not a port", hint="use 1 to 65535, or 0 for any free port")
    if machine.fake_gpus < 0:
        raise usage_error(f"--fake-gpus {machine.fake_gpus} is negative", hint="use 0 or more")
    if background.detach + background.install_service + background.uninstall_service > 1:
        raise usage_error("--detach, --install-service and --uninstall-service exclude each other", hint="use one")
    agents = _fleet(fake)
    if background.uninstall_service:
        return _uninstall()
    from sokovan.entrypoints.embedded.data_folder import data_home, server_of  # noqa: PLC0415  # beside its one use

    given = {"--port": port if port != DEFAULT_PORT else None, "--fake": fake, "--fake-gpus": machine.fake_gpus}
    given |= {"--gpu-shares": machine.gpu_shares, "--no-agent": machine.no_agent, "--name": machine.name}
    given |= {"--kernel-ports": machine.kernel_ports}
    root = data or data_home(os.environ)
    running = server_of(root)
    if running is not None:  # checked before the server modules load
        return _report_running(running, given, service=background.install_service)
    if background.install_service:
        return _install(_words(given, data))
    if background.detach:
        return _detach(_words(given, data), root.absolute())
    from sokovan.entrypoints.up import UpOptions, run_up  # noqa: PLC0415  # the whole server loads only here

    options = UpOptions(
        port=port,
        data=data,
        fake_agents=agents,
        fake_gpus=machine.fake_gpus,
        gpu_shares=machine.gpu_shares,
        agent=not machine.no_agent,
        name=machine.name,
        kernel_ports=machine.kernel_ports,
    )
    return run_up(options, echo=print_status)


def _report_running(about: Mapping[str, object], given: Mapping[str, object], *, service: bool) -> int:
    url = str(about.get("url"))
    if service:
        raise CommandError(
            f"a server already runs at {url} (pid {about.get('pid')}), so that the service could not start",
            code="already-up",
            hint="stop it first: sokovan down",
        )
    print_status(f"sokovan is already running at {url}; nothing to do")
    left = [option if value is True else f"{option} {value}" for option, value in given.items() if value]
    left = [each for each in left if each != f"--port {url.rpartition(':')[2]}"]
    if left:
        print_status(f"not applied: {', '.join(left)}; stop the server first, or use another folder with --data")
    return OK


def _words(given: Mapping[str, object], data: Path | None) -> list[str]:
    """The options as words for another process, which has another working directory."""
    words: list[str] = []
    for option, value in {**given, "--data": data.absolute() if data is not None else None}.items():
        if value is True:
            words.append(option)
        elif value or (option == "--port" and value is not None):
            words += [option, str(value)]
    return words


def _detach(words: Sequence[str], root: Path) -> int:
    from sokovan.entrypoints.background.detached import LOG, ServerNotStarted, start_detached  # noqa: PLC0415  # used only here
    from sokovan.sdk.environment import SystemEnvironment  # noqa: PLC0415  # used only here

    try:
        about = start_detached(words, root, wait=SystemEnvironment())
    except ServerNotStarted as problem:
        print_status(problem.tail)
        raise
    facts = {"url": about.get("url"), "pid": about.get("pid"), "log": root / "logs" / LOG}
    for name, value in facts.items():
        print_data(f"{name:5}{value}")
    print_status("sokovan is running in the background; sokovan status shows it, sokovan down stops it")
    return OK


def _install(words: Sequence[str]) -> int:
    from sokovan.entrypoints.background.service import UNIT, install  # noqa: PLC0415  # used only here

    path = install(words, os.environ)
    print_status(f"wrote {path}; enabled and started {UNIT}")
    print_status(f"its log: journalctl --user -u {UNIT}; it stops at logout unless: loginctl enable-linger")
    return OK


def _uninstall() -> int:
    from sokovan.entrypoints.background.service import UNIT, uninstall  # noqa: PLC0415  # used only here

    path = uninstall(os.environ)
    print_status(f"stopped {UNIT} and removed {path}" if path else "there is no service to remove")
    return OK


def _fleet(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = _FLEET.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise usage_error(f"--fake {text[:60]!r} is not AGENTSxGPUS", hint="use --fake 64x8")
    return int(found[1]), int(found[2])
