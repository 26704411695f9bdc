"""What holds a kernel on this machine, found out once and said in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sokovan.adapters.process.isolation.cgroup_hierarchies import Hierarchies, found_hierarchies
from sokovan.adapters.process.isolation.kernel_limits import limits_in_words
from sokovan.adapters.process.isolation.sandbox import Sandbox, found_sandbox
from sokovan.domain.checks import LABEL_TEXT_MAX
from sokovan.domain.cluster.agent import MOUNTS_ANYWHERE, MOUNTS_IN_PLACE, MOUNTS_LABEL

BUBBLEWRAP = "bwrap"
SANDBOX_LABEL = "sokovan.sandbox"
LIMITS_LABEL = "sokovan.limits"
CONFINEMENT_LABEL = "sokovan.confinement"


@dataclass(frozen=True, slots=True)
class Confinement:
    """The sandbox and the limits that kernels get here."""

    sandbox: Sandbox
    hierarchies: Hierarchies

    def in_words(self) -> str:
        """For people: what confines a kernel here, and what does not."""
        return f"{self.sandbox.in_words()}; {limits_in_words(self.hierarchies)}"

    def labels(self) -> dict[str, str]:
        """For the agent's labels: the same, in words that programs can key on."""
        version = self.hierarchies.version if self.hierarchies.controllers else 0
        return {
            SANDBOX_LABEL: "bubblewrap" if self.sandbox.program else "none",
            MOUNTS_LABEL: MOUNTS_ANYWHERE if self.sandbox.program else MOUNTS_IN_PLACE,
            LIMITS_LABEL: f"cgroup-v{version}" if version else "rlimits",
            CONFINEMENT_LABEL: " ".join(self.in_words().split())[:LABEL_TEXT_MAX],
        }


def confinement(*, hidden: Sequence[Path] = (), bubblewrap: str = BUBBLEWRAP) -> Confinement:
    """Try what this machine offers. Takes some milliseconds, and starts a process.

    An empty `bubblewrap` does without a sandbox.
    """
    if not bubblewrap:
        return Confinement(Sandbox(absence="it is switched off"), _hierarchies())
    return Confinement(found_sandbox(hidden=hidden, program=bubblewrap), _hierarchies())


def _hierarchies() -> Hierarchies:
    try:
        return found_hierarchies()
    except (OSError, ValueError):  # no /proc, or one of another form: then there is nothing to use
        return Hierarchies()
