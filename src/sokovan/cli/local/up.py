"""`sokovan up`: server, agent and database on this machine."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.errors import CommandError, usage_error
from sokovan.cli.exit_codes import OK
from sokovan.cli.local.dashboard import DASHBOARD, Opening, opened
from sokovan.cli.local.fake_fleet import fake_fleet
from sokovan.cli.local.setting_options import NO_SETTINGS, SettingOptions
from sokovan.cli.output import print_data, print_status


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """Options for this machine's agent, and for agents of other machines."""

    fake_gpus: Annotated[int | None, Parameter(help="Number of fake GPUs of this machine.")] = None
    gpu_shares: Annotated[
        bool, Parameter(negative=(), help="Offer the GPUs of this machine in shares: --gpus 0.5.")
    ] = False
    no_agent: Annotated[bool, Parameter(negative=(), help="Do not start an agent on this machine.")] = False
    name: Annotated[str, Parameter(help="Name of this machine's agent; default: the host name.")] = ""
    kernel_ports: Annotated[str, Parameter(help="Ports leased to kernels; default: 20000-29999.")] = ""
    shard: Annotated[str, Parameter(help="Shard of the scaling group that the agent is in.")] = ""
    max_kernels: Annotated[int | None, Parameter(help="Most kernels at once; default: 64 for each CPU.")] = None
    reserve: Annotated[str, Parameter(help="Keep for the machine: cpu=2,mem=8GiB.")] = ""
    runtime: Annotated[str, Parameter(help="How kernels run: process, or docker; default: process.")] = ""
    engine: Annotated[str, Parameter(help="Socket of Docker or Podman; default: the first found.")] = ""
    listen: Annotated[str, Parameter(help="HOST:PORT for agents of other machines; default: none.")] = ""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundOptions:
    """Options that run the server in the background, and open its dashboard.

    At most one of the former is given.
    """

    detach: Annotated[
        bool,
        Parameter(name=["--detach", "-d"], negative=(), help="Run in the background; return when the server is ready."),
    ] = False
    install_service: Annotated[
        bool, Parameter(negative=(), help="Install this command as a systemd user service; start it.")
    ] = False
    open_: Annotated[
        bool, Parameter(name="--open", negative=(), help="Open the dashboard when the server is ready.")
    ] = False
    uninstall_service: Annotated[bool, Parameter(negative=(), help="Stop and remove that service.")] = False


DEFAULT_MACHINE = MachineOptions()
FOREGROUND = BackgroundOptions()


def up(
    *,
    port: int | None = None,
    data: Path | None = None,
    fake: str | None = None,
    machine: MachineOptions = DEFAULT_MACHINE,
    settings: SettingOptions = NO_SETTINGS,
    background: BackgroundOptions = FOREGROUND,
) -> int:
    """Start server, agent and database on this machine.

    Listens on 127.0.0.1 and keeps its state in your data folder. The first
    start creates an API key and a context for this client. Ctrl-C stops it; the
    data is kept, and sessions that keep running are adopted at the next start.

    For example:
      sokovan up
      sokovan up --detach --open
      sokovan up --fake-gpus 4
      sokovan up --runtime docker
      sokovan up --listen 0.0.0.0:7649
      sokovan up --fake 64x8 --no-agent
      sokovan up --config lab.toml --set orchestrator.agent_lost_s=120

    Parameters
    ----------
    port
        Port to listen on, or the next free one; default: 7646.
    data
        Folder for its state; default: in your data folder.
    fake
        Add fake agents: 64x8 is 64 agents with 8 GPUs each.
    """
    if background.detach + background.install_service + background.uninstall_service > 1:
        raise usage_error("--detach, --install-service and --uninstall-service exclude each other", hint="use one")
    agents = fake_fleet(fake)
    if background.uninstall_service:
        return _uninstall()
    from sokovan.entrypoints.embedded.data_folder import data_home, server_of  # noqa: PLC0415  # beside its one use

    given: dict[str, object] = {
        "--port": port,
        "--listen": machine.listen,
        "--fake": fake,
        "--fake-gpus": machine.fake_gpus,
    }
    given |= {"--gpu-shares": machine.gpu_shares, "--no-agent": machine.no_agent, "--name": machine.name}
    given |= {"--kernel-ports": machine.kernel_ports, "--shard": machine.shard, "--reserve": machine.reserve}
    given |= {"--max-kernels": machine.max_kernels, "--runtime": machine.runtime, "--engine": machine.engine}
    given |= {"--set": settings.set}
    given |= {"--config": settings.config.absolute() if settings.config is not None else None}
    root = data or data_home(os.environ)
    with _loading():
        from sokovan.entrypoints.settings.setting_sources import sources_of  # noqa: PLC0415  # loads the settings' modules

    sources = sources_of(settings.config, root, environment=os.environ, flags=given, assignments=settings.set)
    checked = sources.read()  # mistakes are reported here, also if a server runs or will run in the background
    running = server_of(root)
    if running is not None:  # checked before the server modules load
        return _report_running(running, given, service=background.install_service) or opened(wanted=background.open_)
    if background.install_service:
        return _install(_words(given, data))
    if background.detach:
        return _detach(_words(given, data), root.absolute(), port=checked.api.port) or opened(wanted=background.open_)
    with _loading():
        from sokovan.entrypoints.up import UpOptions, run_up  # noqa: PLC0415  # the whole server loads only here

    echo = Opening(print_status, program=DASHBOARD) if background.open_ else print_status
    return run_up(UpOptions(data=data, fake_agents=agents, sources=sources), echo=echo)


@contextmanager
def _loading() -> Iterator[None]:
    """Load modules without a look for garbage, which finds none.

    What they made stays for good, so that later looks leave it out.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _report_running(about: Mapping[str, object], given: Mapping[str, object], *, service: bool) -> int:
    url = str(about.get("url"))
    if service:
        raise CommandError(
            f"a server already runs at {url} (pid {about.get('pid')}), so that the service could not start",
            code="already-up",
            hint="stop it first: sokovan down",
        )
    print_status(f"sokovan is already running at {url}; nothing to do")
    left = [" ".join(words) for words in _pairs(given) if words != ("--port", url.rpartition(":")[2])]
    left = [each for each in left if each != "--port 0"]
    if left:
        print_status(f"not applied: {', '.join(left)}; stop the server first, or use another folder with --data")
    return OK


def _words(given: Mapping[str, object], data: Path | None) -> list[str]:
    """The options as words for another process, which has another working directory."""
    given = {**given, "--data": data.absolute() if data is not None else None}
    return [word for words in _pairs(given) for word in words]


def _pairs(given: Mapping[str, object]) -> list[tuple[str, ...]]:
    """Each given option with its value, if it has one."""
    found: list[tuple[str, ...]] = []
    for option, value in given.items():
        if value is True:
            found.append((option,))
        elif isinstance(value, tuple):
            found += [(option, str(one)) for one in value]
        elif value not in (None, "") and value is not False:
            found.append((option, str(value)))
    return found


def _detach(words: Sequence[str], root: Path, *, port: int) -> int:
    from sokovan.entrypoints.background.detached import LOG, ServerNotStarted, start_detached  # noqa: PLC0415  # used only here
    from sokovan.sdk.environment import SystemEnvironment  # noqa: PLC0415  # used only here

    try:
        about = start_detached(words, root, wait=SystemEnvironment())
    except ServerNotStarted as problem:
        print_status(problem.tail)
        raise
    facts = {name: about[name] for name in ("url", "gateway", "pid") if name in about}
    for name, value in (*facts.items(), ("log", root / "logs" / LOG)):
        print_data(f"{name:9}{value}")
    if port and not str(about.get("url")).endswith(f":{port}"):
        print_status(f"port {port} was in use; the server has the next free one")
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
