"""What an observation of the machine tells an agent about its kernels.

The runtime is believed on what it shows. That it does not show a kernel means
something only if it had been done with starting it before it was asked.
"""

from __future__ import annotations

from dataclasses import replace

from sokovan.agent.instructions import ForgetKernel, Instruction, Step, StopKernel
from sokovan.agent.journal.records import JournalRecord, KernelAsked, KernelKey, KernelStarted
from sokovan.agent.kernel_table import Held, Holdings, Phase, Stranger
from sokovan.agent.messages import Claim, Observed
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.runtime import KernelState, Observation

# How long a kernel that nobody asked for may run: time for a manager to claim it.
ORPHAN_AFTER_MS = 30_000
ORPHAN_GRACE_S = 5.0


class _Look:
    """One pass over an observation, and what follows from it."""

    def __init__(self, holdings: Holdings, event: Observed) -> None:
        self._holdings = holdings
        self._event = event
        self._kernels: dict[KernelKey, Held] = dict(holdings.kernels)
        self._strangers: dict[KernelKey, Stranger] = {}
        self._records: list[JournalRecord] = []
        self._instructions: list[Instruction] = []

    def step(self) -> Step:
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
        return Step(holdings, tuple(self._records), tuple(self._instructions))

    def _own(self, key: KernelKey, held: Held, seen: Observation) -> None:
        self._kernels[key] = _as_seen(held, seen)
        if not held.started and seen.state is not KernelState.STARTING:
            self._kernels[key] = replace(self._kernels[key], started=True)
            self._records.append(KernelStarted(key))
        if key in self._holdings.tombstones and seen.state is not KernelState.EXITED:
            self._instructions.append(StopKernel(key, 0.0))

    def _risen(self, key: KernelKey, seen: Observation) -> None:
        """Something of a kernel that was declared over: make it true, and keep no trace."""
        if seen.state is KernelState.EXITED:
            self._instructions.append(ForgetKernel(key))
        else:
            self._strangers[key] = self._holdings.strangers.get(key) or Stranger(self._event.now_ms, stopped=True)
            self._instructions.append(StopKernel(key, 0.0))

    def _adopt(self, key: KernelKey, seen: Observation, claim: Claim) -> None:
        record = KernelAsked(key, dict(claim.slots), dict(claim.devices), self._holdings.boot)
        held = Held(slots=ResourceSlot(claim.slots), phase=Phase.ASKED, devices=claim.devices, started=True, settled=0)
        self._kernels[key] = _as_seen(held, seen)
        self._records.extend((record, KernelStarted(key)))

    def _strange(self, key: KernelKey, seen: Observation) -> None:
        if seen.state is KernelState.EXITED:
            self._instructions.append(ForgetKernel(key))
            return
        known = self._holdings.strangers.get(key) or Stranger(self._event.now_ms)
        if not known.stopped and self._event.now_ms - known.since_ms >= ORPHAN_AFTER_MS:
            known = replace(known, stopped=True)
            self._instructions.append(StopKernel(key, ORPHAN_GRACE_S))
        self._strangers[key] = known

    def _missing(self, held: Held) -> Held:
        if held.settled is None or held.settled > self._event.begun or held.phase is Phase.EXITED:
            return held
        if held.outlasted:
            return replace(held, phase=Phase.EXITED, reason="the machine was restarted")
        if held.started:
            return replace(held, phase=Phase.VANISHED, reason="the runtime does not list it any more")
        return replace(held, phase=Phase.UNSTARTED, reason="it was never started")


def _as_seen(held: Held, seen: Observation) -> Held:
    if seen.state is KernelState.EXITED:
        return replace(held, phase=Phase.EXITED, exit_code=seen.exit_code, reason=seen.reason)
    if held.phase is Phase.EXITED:  # an observation that was overtaken by a later one
        return held
    phase = Phase.ASKED if seen.state is KernelState.STARTING else Phase.RUNNING
    return replace(held, phase=phase, reason="")


def looked(holdings: Holdings, event: Observed) -> Step:
    """The holdings as the machine shows them."""
    return _Look(holdings, event).step()
