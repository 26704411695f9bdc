"""What an observation proves, and what it does not."""

from __future__ import annotations

from sokovan.agent.instructions import ForgetInstruction, SendHeartbeat, StopInstruction
from sokovan.agent.journal_records import KernelRequested, KernelStarted, Memory
from sokovan.agent.kernel_table import KernelPhase
from sokovan.agent.messages import RuntimeClaim, StartFinished
from sokovan.agent.observations import ORPHAN_AFTER_MS
from sokovan.ports.runtime import KernelState
from tests.unit.agent.stories import Story, key, launch, of_kind, seen

RUNNING = seen(state=KernelState.RUNNING)
EXITED = seen(state=KernelState.EXITED, exit_code=0)


def test_a_kernel_that_starts_or_ends_is_reported_at_once() -> None:
    story = Story()
    story.creates(launch())
    story.happens(StartFinished(key()))
    assert SendHeartbeat() in story.observes(RUNNING)
    assert SendHeartbeat() not in story.observes(RUNNING)
    assert SendHeartbeat() in story.observes(EXITED)
    assert SendHeartbeat() not in story.observes(EXITED)


def test_a_kernel_that_is_still_starting_does_not_run_yet() -> None:
    story = Story()
    story.creates(launch())
    story.happens(StartFinished(key()))
    story.observes(seen(state=KernelState.STARTING))

    assert story.held(key()).phase is KernelPhase.ASKED


def test_an_observation_that_began_before_a_start_was_over_does_not_miss_it() -> None:
    story = Story()
    begun = story.holdings.tick
    story.creates(launch())
    story.observes(begun=begun)
    assert story.held(key()).phase is KernelPhase.ASKED
    story.happens(StartFinished(key()))
    story.observes(begun=begun)

    assert story.held(key()).phase is KernelPhase.ASKED


def test_a_started_kernel_that_is_not_shown_has_vanished_and_that_proves_nothing() -> None:
    story = Story()
    story.starts(launch())
    story.observes()
    assert story.held(key()).phase is KernelPhase.VANISHED

    gone = story.stops(key())
    assert gone is not None
    assert not gone.gone
    assert "does not list it" in gone.detail["reason"]


def test_a_kernel_that_vanished_and_is_shown_again_runs() -> None:
    story = Story()
    story.starts(launch())
    story.observes()
    story.observes(RUNNING)

    assert story.held(key()).phase is KernelPhase.RUNNING


def test_a_start_of_unknown_outcome_is_decided_by_what_is_shown() -> None:
    for shown, phase in (((RUNNING,), KernelPhase.RUNNING), ((), KernelPhase.UNSTARTED)):
        story = Story()
        story.creates(launch())
        story.happens(StartFinished(key(), problem="time is up", code="x", certain=False))
        story.observes(*shown)
        assert story.held(key()).phase is phase


def test_an_agent_that_was_killed_finds_all_its_kernels_again() -> None:
    story = Story()
    for name in ("k1", "k2", "k3"):
        story.starts(launch(name))
    again = Story(memory=story.memory, looks=False)
    done = again.observes(*(seen(name, state=KernelState.RUNNING) for name in ("k1", "k2", "k3")))

    assert {held.phase for held in again.holdings.kernels.values()} == {KernelPhase.RUNNING}
    assert not of_kind(done, StopInstruction)


def test_kernels_of_a_machine_that_was_restarted_have_ended() -> None:
    story = Story()
    story.starts(launch())
    memory = Memory(kernels={key(): story.memory.kernels[key()]})
    again = Story(memory=_before_boot(memory))

    assert again.held(key()).phase is KernelPhase.EXITED
    gone = again.stops(key())
    assert gone is not None
    assert gone.gone
    assert gone.detail == {"reason": "the machine was restarted"}


def _before_boot(memory: Memory) -> Memory:
    asked = memory.kernels[key()]
    return Memory(kernels={key(): type(asked)(asked.slots, asked.devices, "boot-0", started=True)})


def test_a_kernel_whose_launch_names_this_agent_is_adopted() -> None:
    story = Story()
    story.observes(RUNNING, claims={key(): RuntimeClaim({"cpu": 2000}, {"cuda.device": ("gpu1",)})})

    assert story.held(key()).phase is KernelPhase.RUNNING
    assert story.held(key()).slots["cpu"] == 2000
    assert story.records[-2:] == [
        KernelRequested(key(), {"cpu": 2000}, {"cuda.device": ("gpu1",)}, "boot-1"),
        KernelStarted(key()),
    ]


def test_a_kernel_that_nobody_claims_is_stopped_after_half_a_minute_and_then_forgotten() -> None:
    story = Story()
    assert SendHeartbeat() in story.observes(RUNNING)
    story.now_ms = ORPHAN_AFTER_MS - 1
    assert not of_kind(story.observes(RUNNING), StopInstruction)
    story.now_ms = ORPHAN_AFTER_MS
    assert [stop.key for stop in of_kind(story.observes(RUNNING), StopInstruction)] == [key()]
    assert not of_kind(story.observes(RUNNING), StopInstruction), "once is enough"

    assert ForgetInstruction(key()) in story.observes(EXITED)
    assert not story.holdings.strangers


def test_something_of_a_kernel_that_was_declared_over_is_stopped_at_once_and_stays_listed() -> None:
    story = Story()
    story.stops(key())
    assert StopInstruction(key(), 0.0) in story.observes(RUNNING)
    gone = story.stops(key())
    assert gone is not None
    assert not gone.gone, "it runs, whatever was promised"

    assert ForgetInstruction(key()) in story.observes(EXITED)
    gone = story.stops(key())
    assert gone is not None
    assert gone.gone


def test_an_ended_kernel_does_not_rise_by_an_observation_that_was_overtaken() -> None:
    story = Story()
    story.starts(launch())
    story.observes(EXITED)
    story.observes(RUNNING)

    assert story.held(key()).phase is KernelPhase.EXITED


def test_an_ended_kernel_that_the_runtime_has_removed_stays_ended() -> None:
    story = Story()
    story.starts(launch())
    story.observes(EXITED)
    story.observes()

    assert story.held(key()).phase is KernelPhase.EXITED
