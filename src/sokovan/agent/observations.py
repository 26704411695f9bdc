"""What an observation of the machine tells an agent about its kernels.

The runtime is believed on what it shows. That it does not show a kernel means
something only if it had been done with starting it before it was asked.
"""

from __future__ import annotations

from dataclasses import replace

from sokovan.agent.instructions import AgentStep, ForgetInstruction, Instruction, StopInstruction
from sokovan.agent.journal_records import JournalRecord, KernelKey, KernelRequested, KernelStarted
from sokovan.agent.kernel_table import KernelPhase, KernelTable, ManagedKernel, OrphanKernel
from sokovan.agent.messages import Observed, RuntimeClaim
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.runtime import KernelState, Observation

# How long a kernel that nobody asked for may run: time for a manager to claim it.
ORPHAN_AFTER_MS = 30_000
ORPHAN_GRACE_S = 5.0


class _Look:
    """One pass over an observation, and what follows from it."""

    def __init__(self, holdings: KernelTable, event: Observed) -> None:
        self._holdings = holdings
        self._event = event
        self._kernels: dict[KernelKey, ManagedKernel] = dict(holdings.kernels)
        self._strangers: dict[KernelKey, OrphanKernel] = {}
        self._records: list[JournalRecord] = []
        self._instructions: list[Instruction] = []

    def step(self) -> AgentStep:
        shown = {KernelKey(seen.kernel_id, seen.attempt): seen for seen in self._event.observations}
        for key, seen in shown.items():
            if key in self._kernels:
                self._own(key, self._kernels[key], seen)
            elif key in self._holdings.tombstones:
                self._risen(key, seen)
            elif key in self._event.claims:
                self._adopt(key, seen, self._event.claims[key])
            else:
                self._strange(key, seen)
        for key, held in self._kernels.items():
            if key not in shown:
                self._kernels[key] = self._missing(held)
        holdings = replace(self._holdings, seen=True, kernels=self._kernels, strangers=self._strangers)
        return AgentStep(holdings, tuple(self._records), tuple(self._instructions))

    def _own(self, key: KernelKey, held: ManagedKernel, seen: Observation) -> None:
        self._kernels[key] = _as_seen(held, seen)
        if not held.started and seen.state is not KernelState.STARTING:
            self._kernels[key] = replace(self._kernels[key], started=True)
            self._records.append(KernelStarted(key))
        if key in self._holdings.tombstones and seen.state is not KernelState.EXITED:
            self._instructions.append(StopInstruction(key, 0.0))

    def _risen(self, key: KernelKey, seen: Observation) -> None:
        """Something of a kernel that was declared over: make it true, and keep no trace."""
        if seen.state is KernelState.EXITED:
            self._instructions.append(ForgetInstruction(key))
        else:
            self._strangers[key] = self._holdings.strangers.get(key) or OrphanKernel(self._event.now_ms, stopped=True)
            self._instructions.append(StopInstruction(key, 0.0))

    def _adopt(self, key: KernelKey, seen: Observation, claim: RuntimeClaim) -> None:
        record = KernelRequested(key, dict(claim.slots), dict(claim.devices), self._holdings.boot)
        held = ManagedKernel(
            slots=ResourceSlot(claim.slots), phase=KernelPhase.ASKED, devices=claim.devices, started=True, settled=0
        )
        self._kernels[key] = _as_seen(held, seen)
        self._records.extend((record, KernelStarted(key)))

    def _strange(self, key: KernelKey, seen: Observation) -> None:
        if seen.state is KernelState.EXITED:
            self._instructions.append(ForgetInstruction(key))
            return
        known = self._holdings.strangers.get(key) or OrphanKernel(self._event.now_ms)
        if not known.stopped and self._event.now_ms - known.since_ms >= ORPHAN_AFTER_MS:
            known = replace(known, stopped=True)
            self._instructions.append(StopInstruction(key, ORPHAN_GRACE_S))
        self._strangers[key] = known

    def _missing(self, held: ManagedKernel) -> ManagedKernel:
        if held.settled is None or held.settled > self._event.begun or held.phase is KernelPhase.EXITED:
            return held
        if held.outlasted:
            return replace(held, phase=KernelPhase.EXITED, reason="the machine was restarted")
        if held.started:
            return replace(held, phase=KernelPhase.VANISHED, reason="the runtime does not list it any more")
        return replace(held, phase=KernelPhase.UNSTARTED, reason="it was never started")


def _as_seen(held: ManagedKernel, seen: Observation) -> ManagedKernel:
    if seen.state is KernelState.EXITED:
        return replace(held, phase=KernelPhase.EXITED, exit_code=seen.exit_code, reason=seen.reason)
    if held.phase is KernelPhase.EXITED:  # an observation that was overtaken by a later one
        return held
    phase = KernelPhase.ASKED if seen.state is KernelState.STARTING else KernelPhase.RUNNING
    return replace(held, phase=phase, reason="")


def looked(holdings: KernelTable, event: Observed) -> AgentStep:
    """The holdings as the machine shows them."""
    return _Look(holdings, event).step()
