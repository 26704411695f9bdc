"""`sokovan agent run` and `agent join`: run an agent on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.errors import usage_error
from sokovan.cli.local.setting_options import NO_SETTINGS, SettingOptions
from sokovan.cli.output import print_status

if TYPE_CHECKING:
    from sokovan.entrypoints.agent import AgentOptions

# Folder of the identity of a machine that has joined, in the folder of its agent.
JOINED = "joined"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunOptions:
    """Options that describe the agent to its manager."""

    name: Annotated[str, Parameter(help="Name of the agent; default: the host name.")] = ""
    scaling_group: Annotated[str, Parameter(help="Scaling group to join; default: default.")] = ""
    fake_gpus: Annotated[int | None, Parameter(help="Number of fake GPUs to report.")] = None
    gpu_shares: Annotated[
        bool, Parameter(negative=(), help="Offer GPUs in shares, so that kernels can share one: --gpus 0.5.")
    ] = False
    kernel_ports: Annotated[str, Parameter(help="Ports leased to kernels; default: 20000-29999.")] = ""
    data_listen: Annotated[str, Parameter(help="HOST:PORT for gateways on other machines.")] = ""
    shard: Annotated[str, Parameter(help="Shard of the scaling group that it is in.")] = ""
    max_kernels: Annotated[int | None, Parameter(help="Most kernels at once; default: 64 for each CPU.")] = None
    reserve: Annotated[str, Parameter(help="Keep for the machine: cpu=2,mem=8GiB.")] = ""
    runtime: Annotated[str, Parameter(help="How kernels run: process, or docker; default: process.")] = ""
    engine: Annotated[str, Parameter(help="Socket of Docker or Podman; default: the first found.")] = ""
    label: Annotated[tuple[str, ...], Parameter(negative=(), help="Label, such as rack=r01. Repeatable.")] = ()

    def flags(self) -> dict[str, object]:
        """The values by option."""
        return {f"--{one.name.replace('_', '-')}": getattr(self, one.name) for one in fields(self)}


DEFAULT_AGENT = AgentRunOptions()


def run(
    manager: str = "",
    /,
    *,
    options: AgentRunOptions = DEFAULT_AGENT,
    settings: SettingOptions = NO_SETTINGS,
    root: Path | None = None,
    token_file: Path | None = None,
) -> int:
    """Run an agent on this machine.

    The agent connects to the manager and opens no port. Without MANAGER it is the
    one that this machine has joined. Ctrl-C stops the agent;
    its kernels keep running and are adopted when it starts again. The section
    [agent] of the configuration file applies to it too.

    For example:
      sokovan agent run
      sokovan agent run ws://127.0.0.1:7647 --token-file join.token --name gpu2

    Parameters
    ----------
    manager
        URL of the manager: ws://HOST:PORT; default: the one that was joined.
    root
        Folder for the agent's state; default: in the user's data folder.
    token_file
        File with the join token. [env: SOKOVAN_AGENT_TOKEN]
    """
    if not manager:
        return _run_joined(options, settings, root)
    from sokovan.entrypoints.agent import run_agent  # noqa: PLC0415  # the agent loads only here

    agent = _agent(options, settings, root, manager=_address(manager), token=_token(token_file))
    return run_agent(agent, print_status)


def join(
    url: str,
    /,
    *,
    token: str,
    ca: str,
    options: AgentRunOptions = DEFAULT_AGENT,
    settings: SettingOptions = NO_SETTINGS,
    root: Path | None = None,
) -> int:
    """Join this machine to a manager, and run its agent.

    Use the command that `sokovan agent token` prints on the manager. The agent
    makes its own key and gets a certificate. Ctrl-C stops the agent; its kernels
    keep running, and `sokovan agent run` starts it again.

    For example:
      sokovan agent join wss://10.0.0.1:7649 --token join-1.Xy --ca sha256:09ab

    Parameters
    ----------
    url
        URL of the manager: wss://HOST:PORT.
    token
        Join token; it works once.
    ca
        Fingerprint of the manager's authority: sha256:...
    root
        Folder for the agent's state; default: in the user's data folder.
    """
    import asyncio  # noqa: PLC0415  # the agent loads only here

    from sokovan.entrypoints.joining.joined_agent import host_agent, join_machine  # noqa: PLC0415  # the agent loads only here

    agent = _agent(options, settings, root, manager=url)
    name = agent.name or host_agent()
    joined = asyncio.run(
        join_machine(url, token=token, authority=ca, agent_id=name, folder=agent.root.absolute() / JOINED)
    )
    print_status(f"joined {joined.url} as agent {joined.agent_id} in scaling group {joined.scaling_group}")
    return _run_joined(options, settings, root)


def _agent(
    options: AgentRunOptions, settings: SettingOptions, root: Path | None, *, manager: str, token: str = ""
) -> AgentOptions:
    from sokovan.entrypoints.agent import agent_options_of  # noqa: PLC0415  # the agent loads only here
    from sokovan.entrypoints.embedded.data_folder import data_home  # noqa: PLC0415  # the agent loads only here
    from sokovan.entrypoints.settings.setting_sources import sources_of  # noqa: PLC0415  # as the agent

    data, flags = data_home(os.environ), options.flags()
    sources = sources_of(settings.config, data, environment=os.environ, flags=flags, assignments=settings.set)
    return agent_options_of(sources.read().agent, manager=manager, token=token, root=root or data / "agent")


def _run_joined(options: AgentRunOptions, settings: SettingOptions, root: Path | None) -> int:
    """Run the agent of a machine that has joined. Raises NotJoined."""
    from sokovan.domain.cluster.agent import OWN_ADDRESS_LABEL  # noqa: PLC0415  # the agent loads only here
    from sokovan.entrypoints.agent import run_agent  # noqa: PLC0415  # the agent loads only here
    from sokovan.entrypoints.joining.joined_agent import JoinedMachine  # noqa: PLC0415  # the agent loads only here

    agent = _agent(options, settings, root, manager="")
    joined = JoinedMachine.load(agent.root / JOINED)
    context = joined.context()
    agent = replace(
        agent,
        manager=joined.url,
        name=joined.agent_id,
        scaling_group=joined.scaling_group,
        addresses=joined.addresses(context),
    )
    own = joined.own_address()
    if own:
        agent = replace(agent, labels={OWN_ADDRESS_LABEL: own, **agent.labels})
    data = joined.data_socket(agent.data_listen)
    agent = replace(agent, data=data)
    renewal = partial(joined.keep_renewed, context, print_status, listening=[data.tls] if data else [])
    return run_agent(agent, print_status, renewal)


def _address(text: str) -> str:
    if not text.startswith(("ws://", "wss://")):
        raise usage_error(f"{text[:200]!r} is not the URL of a manager", hint="use ws://HOST:PORT or wss://HOST:PORT")
    return text


def _token(file: Path | None) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip() if file else os.environ.get("SOKOVAN_AGENT_TOKEN", "")
    except (OSError, UnicodeDecodeError) as error:
        raise usage_error(f"cannot read the token from {file}: {error}", hint="check --token-file") from error
    if not token:
        raise usage_error("no join token given", hint="use --token-file FILE, or set SOKOVAN_AGENT_TOKEN")
    return token
