"""Reconciles the kernel table with what the runtime lists.

A listed kernel is taken as it is listed. A missing kernel is significant only if its
start had finished before the listing began.
"""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from sokovan.agent.journal_records import JournalRecord, KernelKey, KernelRequested, KernelStarted
from sokovan.agent.kernel_table import KernelPhase, KernelTable, ManagedKernel, OrphanKernel
from sokovan.agent.messages import (
    AgentStep,
    EndRemainsInstruction,
    ForgetInstruction,
    Instruction,
    Observed,
    RuntimeClaim,
    StopInstruction,
)
from sokovan.agent.requests import aged, with_kept
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.runtime import KernelState, Observation

# How long an orphan may run before it is stopped: time for a manager to claim it.
ORPHAN_AFTER_MS = 30_000
ORPHAN_GRACE_S = 5.0


class _Reconciliation:
    """One pass over an observation."""

    def __init__(self, table: KernelTable, event: Observed) -> None:
        self._table = table
        self._event = event
        self._kernels: dict[KernelKey, ManagedKernel] = dict(table.kernels)
        self._orphans: dict[KernelKey, OrphanKernel] = {}
        if not event.complete:
            listed = {KernelKey(seen.kernel_id, seen.attempt) for seen in event.observations}
            self._orphans = {key: orphan for key, orphan in table.orphans.items() if key not in listed}
        self._records: list[JournalRecord] = []
        self._instructions: list[Instruction] = []

    def step(self) -> AgentStep:
        shown = {KernelKey(seen.kernel_id, seen.attempt): seen for seen in self._event.observations}
        for key, seen in shown.items():
            if key in self._table.kept and seen.state is KernelState.EXITED:
                continue
            if key in self._kernels:
                self._known(key, self._kernels[key], seen)
            elif key in self._table.tombstones:
                self._tombstoned(key, seen)
            elif key in self._event.claims:
                self._adopt(key, seen, self._event.claims[key])
            else:
                self._orphan(key, seen)
        if not self._event.complete:
            table = replace(self._table, kernels=self._kernels, orphans=self._orphans)
            return with_kept(AgentStep(table, tuple(self._records), tuple(self._instructions)), *shown)
        for key, kernel in self._kernels.items():
            if key not in shown:
                self._kernels[key] = self._missing(key, kernel)
        table = replace(self._table, observed=True, kernels=self._kernels, orphans=self._orphans)
        done = aged(table, self._event.now_ms)
        records, instructions = (*self._records, *done.records), (*self._instructions, *done.instructions)
        return with_kept(AgentStep(done.table, records, instructions), *shown)

    def _known(self, key: KernelKey, kernel: ManagedKernel, seen: Observation) -> None:
        if not kernel.traces and seen.traces:  # from the journal of an earlier release
            kernel = replace(kernel, traces=seen.traces)
        self._kernels[key] = _as_observed(kernel, seen)
        if not kernel.started and seen.state is not KernelState.STARTING:
            self._kernels[key] = replace(self._kernels[key], started=True)
            self._records.append(KernelStarted(key, seen.traces))
        if key in self._table.tombstones and seen.state is not KernelState.EXITED:
            self._instructions.append(StopInstruction(key, 0.0))

    def _tombstoned(self, key: KernelKey, seen: Observation) -> None:
        """Stop and forget a kernel that was declared ended."""
        if seen.state is KernelState.EXITED:
            self._instructions.append(ForgetInstruction(key))
        else:
            self._orphans[key] = self._table.orphans.get(key) or OrphanKernel(self._event.now_ms, stopped=True)
            self._instructions.append(StopInstruction(key, 0.0))

    def _adopt(self, key: KernelKey, seen: Observation, claim: RuntimeClaim) -> None:
        record = KernelRequested(key, dict(claim.slots), dict(claim.devices), self._table.boot)
        kernel = ManagedKernel(
            slots=ResourceSlot(claim.slots), phase=KernelPhase.REQUESTED, devices=claim.devices, started=True, settled=0
        )
        self._kernels[key] = replace(_as_observed(kernel, seen), traces=seen.traces)
        self._records.extend((record, KernelStarted(key, seen.traces)))

    def _orphan(self, key: KernelKey, seen: Observation) -> None:
        if seen.state is KernelState.EXITED:
            self._instructions.append(ForgetInstruction(key))
            return
        known = self._table.orphans.get(key) or OrphanKernel(self._event.now_ms)
        if not known.stopped and self._event.now_ms - known.since_ms >= ORPHAN_AFTER_MS:
            known = dataclasses.replace(known, stopped=True)
            self._instructions.append(StopInstruction(key, ORPHAN_GRACE_S))
        self._orphans[key] = known

    def _missing(self, key: KernelKey, kernel: ManagedKernel) -> ManagedKernel:
        if kernel.settled is None or kernel.settled > self._event.begun or kernel.phase is KernelPhase.EXITED:
            return kernel
        if kernel.predates_boot:
            return replace(kernel, phase=KernelPhase.EXITED, reason="the machine was restarted")
        if kernel.started:
            return self._vanished(key, kernel)
        return replace(kernel, phase=KernelPhase.UNSTARTED, reason="it was never started")

    def _vanished(self, key: KernelKey, kernel: ManagedKernel) -> ManagedKernel:
        """It may have removed its own files: only ending what it left proves its end."""
        if kernel.ending:
            return kernel
        self._instructions.append(EndRemainsInstruction(key, kernel.traces))
        reason = kernel.reason or "the runtime does not list it any more"
        return replace(kernel, phase=KernelPhase.VANISHED, reason=reason, ending=True)


def _as_observed(kernel: ManagedKernel, seen: Observation) -> ManagedKernel:
    if seen.checkpoint is not None and seen.checkpoint != kernel.checkpoint:
        kernel = replace(kernel, checkpoint=seen.checkpoint)
    if seen.state is KernelState.EXITED:
        if (kernel.phase, kernel.exit_code, kernel.reason) == (KernelPhase.EXITED, seen.exit_code, seen.reason):
            return kernel
        return replace(kernel, phase=KernelPhase.EXITED, exit_code=seen.exit_code, reason=seen.reason)
    if kernel.phase is KernelPhase.EXITED:  # a later observation came first
        return kernel
    phase = KernelPhase.REQUESTED if seen.state is KernelState.STARTING else KernelPhase.RUNNING
    if kernel.phase is phase and not kernel.reason and kernel.idle_s == seen.idle_s:
        return kernel
    return replace(kernel, phase=phase, reason="", idle_s=seen.idle_s)


def reconciled(table: KernelTable, event: Observed) -> AgentStep:
    """The table reconciled with an observation of the runtime."""
    return _Reconciliation(table, event).step()
