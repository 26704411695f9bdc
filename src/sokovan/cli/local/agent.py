"""`sokovan agent run`: run an agent on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sokovan.cli.errors import usage_error
from sokovan.cli.output import print_status


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunOptions:
    """Options that describe the agent to its manager."""

    name: Annotated[str, Parameter(help="Name of the agent; default: the host name.")] = ""
    scaling_group: Annotated[str, Parameter(help="Scaling group to join; default: default.")] = "default"
    fake_gpus: Annotated[int, Parameter(help="Number of fake GPUs to report.")] = 0
    gpu_shares: Annotated[
        bool, Parameter(negative=(), help="Offer GPUs in shares, so that kernels can share one: --gpus 0.5.")
    ] = False
    kernel_ports: Annotated[str, Parameter(help="Ports leased to kernels; default: 20000-29999.")] = ""
    label: Annotated[tuple[str, ...], Parameter(negative=(), help="Label, such as rack=r01. Repeatable.")] = ()


DEFAULT_AGENT = AgentRunOptions()


def run(
    manager: str,
    /,
    *,
    options: AgentRunOptions = DEFAULT_AGENT,
    root: Path | None = None,
    token_file: Path | None = None,
) -> int:
    """Run an agent on this machine.

    The agent connects to the manager and opens no port. Ctrl-C stops the agent;
    its kernels keep running and are adopted when it starts again.

    For example:
      sokovan agent run ws://127.0.0.1:7647 --token-file join.token --name gpu2

    Parameters
    ----------
    manager
        URL of the manager: ws://HOST:PORT or wss://HOST:PORT.
    root
        Folder for the agent's state; default: in the user's data folder.
    token_file
        File with the join token. [env: SOKOVAN_AGENT_TOKEN]
    """
    from sokovan.entrypoints.agent import AgentOptions, run_agent  # noqa: PLC0415  # the agent loads only here
    from sokovan.entrypoints.embedded.data_folder import data_home  # noqa: PLC0415  # the agent loads only here

    if options.fake_gpus < 0:
        raise usage_error(f"--fake-gpus {options.fake_gpus} is negative", hint="use 0 or more")
    agent = AgentOptions(
        manager=_address(manager),
        token=_token(token_file),
        root=root or data_home(os.environ) / "agent",
        name=options.name,
        scaling_group=options.scaling_group,
        fake_gpus=options.fake_gpus,
        gpu_shares=options.gpu_shares,
        kernel_ports=options.kernel_ports,
        labels=dict(_label(text) for text in options.label),
    )
    return run_agent(agent, print_status)


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


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise usage_error(f"--label {text[:80]!r} is not NAME=VALUE", hint="use --label rack=r01")
    if name.startswith("sokovan."):
        raise usage_error(f"--label {text[:80]!r}: the agent sets these itself", hint="use another name, or an option")
    return name, value
