"""The isolation of kernels on this machine, probed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from sokovan.adapters.process.isolation.accounts import Account, Accounts
from sokovan.adapters.process.isolation.bubblewrap import PROGRAM
from sokovan.adapters.process.isolation.cgroup_hierarchies import Hierarchies, probe_hierarchies
from sokovan.adapters.process.isolation.devices import NO_SLICES
from sokovan.adapters.process.isolation.kernel_limits import limits_in_words
from sokovan.adapters.process.isolation.sandbox import Sandbox, folders_of, probe_sandbox
from sokovan.domain.checks import LABEL_TEXT_MAX
from sokovan.domain.cluster.agent import (
    ACCOUNTS_LABEL,
    ISOLATED_BY_SANDBOX,
    ISOLATION_LABEL,
    MOUNTS_ANYWHERE,
    MOUNTS_IN_PLACE,
    MOUNTS_LABEL,
    NO_ACCOUNTS,
    NOT_ISOLATED,
    account_range_text,
)
from sokovan.wire.frames import CreateKernel

BUBBLEWRAP = PROGRAM
SANDBOX_LABEL = "sokovan.sandbox"
LIMITS_LABEL = "sokovan.limits"
CONFINEMENT_LABEL = "sokovan.confinement"


@dataclass(frozen=True, slots=True)
class Confinement:
    """The sandbox and the limits of kernels on this machine."""

    sandbox: Sandbox
    hierarchies: Hierarchies
    accounts: Accounts | None = None

    def account_of(self, launch: CreateKernel, closing: ExitStack) -> Account | None:
        """The account of a kernel's user; None for that of the agent.

        Its descriptors are closed by `closing`, once the shim has opened them.

        The only user of a system works in folders of the agent's own account, in which no
        other account could write. Raises RuntimeFailure, OSError.
        """
        works_in_own = launch.owns_folders and bool(folders_of(launch))
        if self.accounts is None or launch.output is None or works_in_own:
            return None
        account = self.accounts.of(launch.output.owner)
        closing.callback(account.close)
        return account

    def in_words(self) -> str:
        """A description for people: what isolates a kernel here, and what does not."""
        return f"{self.sandbox.in_words()}; {limits_in_words(self.hierarchies, accounts=self.accounts is not None)}"

    def labels(self) -> dict[str, str]:
        """The same as agent labels, with values for programs."""
        version = self.hierarchies.version if self.hierarchies.controllers else 0
        return {
            ISOLATION_LABEL: ISOLATED_BY_SANDBOX if self.sandbox.program else NOT_ISOLATED,
            SANDBOX_LABEL: "bubblewrap" if self.sandbox.program else "none",
            MOUNTS_LABEL: MOUNTS_ANYWHERE if self.sandbox.program else MOUNTS_IN_PLACE,
            ACCOUNTS_LABEL: account_range_text(self.sandbox.accounts) or "none",
            LIMITS_LABEL: f"cgroup-v{version}" if version else "rlimits",
            CONFINEMENT_LABEL: " ".join(self.in_words().split())[:LABEL_TEXT_MAX],
        }


def confinement(
    *,
    hidden: Sequence[Path] = (),
    bubblewrap: str = BUBBLEWRAP,
    accounts: range = NO_ACCOUNTS,
    root: Path | None = None,
    slices: Mapping[str, tuple[str, ...]] = NO_SLICES,
) -> Confinement:
    """Probe this machine. Takes some milliseconds, and starts a process.

    An empty `bubblewrap` disables the sandbox. `root` is the folder for the record of accounts,
    `slices` are the names in /dev of slices of devices.
    """
    if not bubblewrap:
        return Confinement(Sandbox(absence="it is disabled"), _hierarchies())
    sandbox = replace(probe_sandbox(hidden=hidden, program=bubblewrap, accounts=accounts), slices=slices)
    used = Accounts(root, sandbox.accounts) if sandbox.accounts and root is not None else None
    return Confinement(sandbox, _hierarchies(), used)


def _hierarchies() -> Hierarchies:
    try:
        return probe_hierarchies()
    except (OSError, ValueError):  # no /proc, or one of another format
        return Hierarchies()
