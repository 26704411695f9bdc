"""What an observation proves, and what it does not."""

from __future__ import annotations

from sokovan.agent.journal_records import JournalState, KernelRequested, KernelStarted
from sokovan.agent.kernel_table import KernelPhase
from sokovan.agent.messages import (
    EndRemainsInstruction,
    ForgetInstruction,
    RemainsEnded,
    RuntimeClaim,
    SendHeartbeat,
    StartFinished,
    StopInstruction,
)
from sokovan.agent.observations import ORPHAN_AFTER_MS
from sokovan.ports.runtime import KernelState
from tests.unit.agent.supervisor_harness import SupervisorHarness, key, launch, of_kind, seen

RUNNING = seen(state=KernelState.RUNNING)
EXITED = seen(state=KernelState.EXITED, exit_code=0)


def test_a_kernel_that_starts_or_ends_is_reported_at_once() -> None:
    agent = SupervisorHarness()
    agent.create(launch())
    agent.apply(StartFinished(key()))
    assert SendHeartbeat() in agent.observe(RUNNING)
    assert SendHeartbeat() not in agent.observe(RUNNING)
    assert SendHeartbeat() in agent.observe(EXITED)
    assert SendHeartbeat() not in agent.observe(EXITED)


def test_a_kernel_that_is_still_starting_does_not_run_yet() -> None:
    agent = SupervisorHarness()
    agent.create(launch())
    agent.apply(StartFinished(key()))
    agent.observe(seen(state=KernelState.STARTING))

    assert agent.kernel(key()).phase is KernelPhase.REQUESTED


def test_an_observation_that_began_before_a_start_was_over_does_not_miss_it() -> None:
    agent = SupervisorHarness()
    begun = agent.table.tick
    agent.create(launch())
    agent.observe(begun=begun)
    assert agent.kernel(key()).phase is KernelPhase.REQUESTED
    agent.apply(StartFinished(key()))
    agent.observe(begun=begun)

    assert agent.kernel(key()).phase is KernelPhase.REQUESTED


def test_a_started_kernel_that_is_not_shown_has_vanished_and_that_proves_nothing() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    agent.observe()
    assert agent.kernel(key()).phase is KernelPhase.VANISHED

    gone = agent.stop(key())
    assert gone is not None
    assert not gone.gone
    assert "does not list it" in gone.detail["reason"]


def test_what_is_left_of_a_vanished_kernel_is_ended_by_its_traces_until_that_is_proved() -> None:
    agent = SupervisorHarness()
    agent.create(launch())
    agent.apply(StartFinished(key(), traces="shim 7"))
    agent.observe(RUNNING)
    assert of_kind(agent.observe(), EndRemainsInstruction) == [EndRemainsInstruction(key(), "shim 7")]
    assert of_kind(agent.observe(), EndRemainsInstruction) == []  # under way

    agent.apply(RemainsEnded(key(), left="does not die: pid 7"))
    gone = agent.stop(key())
    assert gone is not None
    assert not gone.gone
    assert gone.detail["reason"] == "does not die: pid 7"
    assert of_kind(agent.observe(), EndRemainsInstruction) == [EndRemainsInstruction(key(), "shim 7")]

    assert SendHeartbeat() in agent.apply(RemainsEnded(key()))
    assert (agent.kernel(key()).phase, agent.kernel(key()).exit_code) == (KernelPhase.EXITED, 137)
    gone = agent.stop(key())
    assert gone is not None
    assert gone.gone


def test_a_restarted_agent_ends_what_is_left_of_a_kernel_by_the_traces_in_its_journal() -> None:
    before = SupervisorHarness()
    before.create(launch())
    before.apply(StartFinished(key(), traces="shim 7"))
    agent = SupervisorHarness(journal=before.journal, connected=False)

    assert of_kind(agent.observe(), EndRemainsInstruction) == [EndRemainsInstruction(key(), "shim 7")]


def test_an_outcome_for_a_kernel_that_is_shown_again_or_forgotten_changes_nothing() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    agent.observe()
    agent.observe(RUNNING)
    agent.apply(RemainsEnded(key()))
    agent.apply(RemainsEnded(key("unknown")))

    assert agent.kernel(key()).phase is KernelPhase.RUNNING
    assert of_kind(agent.observe(), EndRemainsInstruction) != []


def test_a_kernel_that_vanished_and_is_shown_again_runs() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    agent.observe()
    agent.observe(RUNNING)

    assert agent.kernel(key()).phase is KernelPhase.RUNNING


def test_a_start_of_unknown_outcome_is_decided_by_what_is_shown() -> None:
    for shown, phase in (((RUNNING,), KernelPhase.RUNNING), ((), KernelPhase.UNSTARTED)):
        agent = SupervisorHarness()
        agent.create(launch())
        agent.apply(StartFinished(key(), problem="time is up", code="x", certain=False))
        agent.observe(*shown)
        assert agent.kernel(key()).phase is phase


def test_an_agent_that_was_killed_finds_all_its_kernels_again() -> None:
    agent = SupervisorHarness()
    for name in ("k1", "k2", "k3"):
        agent.start(launch(name))
    again = SupervisorHarness(journal=agent.journal, connected=False)
    done = again.observe(*(seen(name, state=KernelState.RUNNING) for name in ("k1", "k2", "k3")))

    assert {held.phase for held in again.table.kernels.values()} == {KernelPhase.RUNNING}
    assert not of_kind(done, StopInstruction)


def test_kernels_of_a_machine_that_was_restarted_have_ended() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    memory = JournalState(kernels={key(): agent.journal.kernels[key()]})
    again = SupervisorHarness(journal=_before_boot(memory))

    assert again.kernel(key()).phase is KernelPhase.EXITED
    gone = again.stop(key())
    assert gone is not None
    assert gone.gone
    assert gone.detail == {"reason": "the machine was restarted"}


def _before_boot(memory: JournalState) -> JournalState:
    asked = memory.kernels[key()]
    return JournalState(kernels={key(): type(asked)(asked.slots, asked.devices, "boot-0", started=True)})


def test_a_kernel_whose_launch_names_this_agent_is_adopted() -> None:
    agent = SupervisorHarness()
    agent.observe(RUNNING, claims={key(): RuntimeClaim({"cpu": 2000}, {"cuda.device": ("gpu1",)})})

    assert agent.kernel(key()).phase is KernelPhase.RUNNING
    assert agent.kernel(key()).slots["cpu"] == 2000
    assert agent.records[-2:] == [
        KernelRequested(key(), {"cpu": 2000}, {"cuda.device": ("gpu1",)}, "boot-1"),
        KernelStarted(key()),
    ]


def test_an_unclaimed_orphan_is_stopped_after_half_a_minute_and_then_forgotten() -> None:
    agent = SupervisorHarness()
    assert SendHeartbeat() in agent.observe(RUNNING)
    agent.now_ms = ORPHAN_AFTER_MS - 1
    assert not of_kind(agent.observe(RUNNING), StopInstruction)
    agent.now_ms = ORPHAN_AFTER_MS
    assert [stop.key for stop in of_kind(agent.observe(RUNNING), StopInstruction)] == [key()]
    assert not of_kind(agent.observe(RUNNING), StopInstruction), "once is enough"

    assert ForgetInstruction(key()) in agent.observe(EXITED)
    assert not agent.table.orphans


def test_something_of_a_kernel_that_was_declared_over_is_stopped_at_once_and_stays_listed() -> None:
    agent = SupervisorHarness()
    agent.stop(key())
    assert StopInstruction(key(), 0.0) in agent.observe(RUNNING)
    gone = agent.stop(key())
    assert gone is not None
    assert not gone.gone, "it runs, whatever was promised"

    assert ForgetInstruction(key()) in agent.observe(EXITED)
    gone = agent.stop(key())
    assert gone is not None
    assert gone.gone


def test_an_ended_kernel_does_not_rise_by_an_observation_that_was_overtaken() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    agent.observe(EXITED)
    agent.observe(RUNNING)

    assert agent.kernel(key()).phase is KernelPhase.EXITED


def test_an_ended_kernel_that_the_runtime_has_removed_stays_ended() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    agent.observe(EXITED)
    agent.observe()

    assert agent.kernel(key()).phase is KernelPhase.EXITED


def test_nothing_follows_from_what_an_incomplete_observation_leaves_out() -> None:
    agent = SupervisorHarness()
    agent.start(launch("k1"))
    agent.start(launch("k2"))
    agent.observe(RUNNING, seen("k2", state=KernelState.RUNNING), seen("orphan", state=KernelState.RUNNING))
    assert SendHeartbeat() in agent.observe(EXITED, complete=False)

    assert (agent.kernel(key("k1")).phase, agent.kernel(key("k1")).exit_code) == (KernelPhase.EXITED, 0)
    assert agent.kernel(key("k2")).phase is KernelPhase.RUNNING
    assert list(agent.table.orphans) == [key("orphan")]


def test_an_orphan_that_an_incomplete_observation_shows_as_ended_is_forgotten() -> None:
    agent = SupervisorHarness()
    agent.observe(RUNNING)
    assert ForgetInstruction(key()) in agent.observe(EXITED, complete=False)

    assert not agent.table.orphans


def test_an_incomplete_observation_does_not_make_an_agent_ready() -> None:
    agent = SupervisorHarness(connected=False)
    agent.observe(RUNNING, complete=False)
    assert not agent.table.observed
    agent.observe(RUNNING)
    assert agent.table.observed
