"""`sokovan agent run`: this machine as one of a manager's."""

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
    """What this machine is to its manager."""

    name: Annotated[str, Parameter(help="Its name; the host name, if not said.")] = ""
    scaling_group: Annotated[str, Parameter(help="The pool it joins.")] = "default"
    fake_gpus: Annotated[int, Parameter(help="Pretend to have so many GPUs.")] = 0
    label: Annotated[tuple[str, ...], Parameter(negative=(), help="A label: rack=r01. Repeatable.")] = ()


DEFAULT_AGENT = AgentRunOptions()


def run(
    manager: str,
    /,
    *,
    machine: AgentRunOptions = DEFAULT_AGENT,
    root: Path | None = None,
    token_file: Path | None = None,
) -> int:
    """Be an agent: run kernels of a manager on this machine.

    It dials the manager, so no port is opened here. Ctrl-C stops the agent; its kernels go on, and are taken up again
    when it comes back.

    For example:
      sokovan agent run ws://127.0.0.1:7647 --token-file join.token --name gpu2 --label rack=r01

    Parameters
    ----------
    manager
        The address of the manager's link.
    root
        The agent's own folder; under the user's data folder, if not said.
    token_file
        A file that holds the token; otherwise SOKOVAN_AGENT_TOKEN.
    """
    from sokovan.entrypoints.agent import AgentOptions, run_agent  # noqa: PLC0415  # the agent loads only here
    from sokovan.entrypoints.embedded.data_folder import data_home  # noqa: PLC0415  # the agent loads only here

    if machine.fake_gpus < 0:
        raise usage_error(f"--fake-gpus {machine.fake_gpus} is less than nothing", hint="write 0 or more")
    options = AgentOptions(
        manager=_address(manager),
        token=_token(token_file),
        root=root or data_home(os.environ) / "agent",
        name=machine.name,
        scaling_group=machine.scaling_group,
        fake_gpus=machine.fake_gpus,
        labels=dict(_label(text) for text in machine.label),
    )
    return run_agent(options, print_status)


def _address(text: str) -> str:
    if not text.startswith(("ws://", "wss://")):
        raise usage_error(
            f"{text[:200]!r} is not the address of a manager's link", hint="write ws://HOST:PORT or wss://HOST:PORT"
        )
    return text


def _token(file: Path | None) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip() if file else os.environ.get("SOKOVAN_AGENT_TOKEN", "")
    except (OSError, UnicodeDecodeError) as error:
        raise usage_error(f"cannot read the token from {file}: {error}", hint="check --token-file") from error
    if not token:
        raise usage_error("no token is given", hint="use --token-file FILE, or set SOKOVAN_AGENT_TOKEN")
    return token


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise usage_error(f"--label {text[:80]!r} is not NAME=VALUE", hint="write --label rack=r01")
    return name, value
