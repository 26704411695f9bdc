"""The isolation of containers on this machine: engine, accounts and limits."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from sokovan.adapters.docker.container_spec import ContainerPolicy
from sokovan.adapters.docker.engine.client import EngineClient
from sokovan.adapters.process.isolation.accounts import Accounts
from sokovan.adapters.process.isolation.confinement import CONFINEMENT_LABEL, LIMITS_LABEL, SANDBOX_LABEL
from sokovan.adapters.process.isolation.kernel_limits import open_files_limit
from sokovan.adapters.process.isolation.sandbox import folders_of
from sokovan.domain.checks import LABEL_TEXT_MAX
from sokovan.domain.cluster.agent import (
    ACCOUNTS_LABEL,
    ISOLATED_BY_SANDBOX,
    ISOLATION_LABEL,
    MOUNTS_ANYWHERE,
    MOUNTS_LABEL,
    account_range_text,
)
from sokovan.wire.frames import CreateKernel

ENGINE_LABEL = "sokovan.engine"
_ROOTLESS = "name=rootless"


@dataclass(frozen=True, slots=True)
class ContainerConfinement:
    """The engine of this machine, and the accounts and rules of its containers."""

    engine: str
    policy: ContainerPolicy
    rootless: bool = False
    accounts: Accounts | None = None

    def account_of(self, launch: CreateKernel) -> int | None:
        """The number of the account of a kernel's user; None for that of the agent.

        The only user of a system works in folders of the agent's own account. Raises RuntimeFailure, OSError.
        """
        works_in_own = launch.owns_folders and bool(folders_of(launch))
        if self.accounts is None or launch.output is None or works_in_own:
            return None
        return self.accounts.number_of(launch.output.owner)

    def user_of(self, account: int | None) -> str:
        """The user and group inside a container.

        Those of a rootless engine are mapped to its own account.
        """
        if account is not None:
            return f"{account}:{account}"
        return "0:0" if self.rootless else f"{os.geteuid()}:{os.getegid()}"

    def in_words(self) -> str:
        """A description for people."""
        root = "read-only root" if self.policy.read_only_root else "writable root"
        accounts = ", an account per user" if self.accounts is not None else ""
        network = "a network for each session" if self.policy.session_networks else "network shared"
        rights = f"no capabilities, no new privileges, {root}, {network}{accounts}"
        return f"containers of {self.engine}: {rights}; limits on memory, cpu and processes"

    def labels(self) -> dict[str, str]:
        """The same as agent labels, with values for programs."""
        return {
            ISOLATION_LABEL: ISOLATED_BY_SANDBOX,
            SANDBOX_LABEL: "container",
            ENGINE_LABEL: self.engine,
            MOUNTS_LABEL: MOUNTS_ANYWHERE,
            ACCOUNTS_LABEL: "none" if self.accounts is None else account_range_text(self.accounts.numbers) or "none",
            LIMITS_LABEL: "engine",
            CONFINEMENT_LABEL: " ".join(self.in_words().split())[:LABEL_TEXT_MAX],
        }


async def probed(engine: EngineClient, policy: ContainerPolicy, accounts: Accounts | None) -> ContainerConfinement:
    """Ask an engine what it is. Raises EngineUnavailable, EngineRefusal."""
    version: dict[str, Any] = await engine.call("GET", "/version")
    info: dict[str, Any] = await engine.call("GET", "/info")
    parts = [str(part.get("Name", "")) for part in version.get("Components") or ()]
    name = "Podman" if any(part.startswith("Podman") for part in parts) else "Docker"
    rootless = any(_ROOTLESS in str(option) for option in info.get("SecurityOptions") or ())
    return ContainerConfinement(
        f"{name} {version.get('Version', '')}".strip(),
        replace(policy, cpus=int(info.get("NCPU") or 0), open_files=open_files_limit()),
        rootless,
        None if rootless or os.geteuid() != 0 else accounts,
    )
