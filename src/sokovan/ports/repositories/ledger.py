"""The ledger: who holds which slots, and the one way to free them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sokovan.domain.errors import SokovanError, quoted
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.policy import Scope
from sokovan.domain.records import Change, HeldSlot, KernelRecord


class UnprovenFree(SokovanError):
    """Slots were to be freed on a ground that does not hold."""

    code = "unproven-free"
    hint = "free slots only with a proof that nothing of the kernel runs; until then they stay taken"

    def __init__(self, *, kernel: str, proof: str, problem: str) -> None:
        self.kernel, self.proof, self.problem = kernel, proof, problem
        super().__init__(f"kernel {quoted(kernel)} cannot be freed by {proof}: {problem}")


class Ledger(Protocol):
    """What kernels hold. Taking is the allocator's; freeing is here, and only here."""

    async def free(self, kernels: Sequence[KernelRecord], proof: FreeProof, change: Change) -> None:
        """End TERMINATING kernels with a proof and free what they hold.

        Their sessions follow. An exit code that a record brings, and the store does not
        have yet, is kept.

        A kernel that was freed already is passed over, so that a repeated report does
        no harm. Raises UnprovenFree, StaleVersion.
        """

    async def held(self, agent_id: AgentId) -> Sequence[HeldSlot]:
        """Every line of this agent that is not freed."""

    async def kernels_on(self, agent_id: AgentId) -> Sequence[KernelRecord]:
        """Every kernel that holds something here, also of a session that has ended."""

    async def of_kernel(self, kernel_id: KernelId) -> Sequence[HeldSlot]:
        """Every line of this kernel, freed ones too."""

    async def usage(self, scope: Scope, name: str) -> Mapping[str, int]:
        """What an owner holds, by slot."""
