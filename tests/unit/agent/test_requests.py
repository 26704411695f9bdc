"""Requests that come twice, late, or out of turn."""

from __future__ import annotations

from dataclasses import replace

from sokovan.agent.instructions import (
    ForgetInstruction,
    PrepareInstruction,
    SendAnswer,
    StartInstruction,
    StopInstruction,
)
from sokovan.agent.journal_records import KernelEntombed, KernelForgotten, KernelRequested, KernelWithdrawn
from sokovan.agent.kernel_table import KernelPhase
from sokovan.agent.messages import ImageProgressed, PrepareRequested, StartFinished
from sokovan.ports.agent_gateway import ImageReport, ImageState
from sokovan.ports.runtime import KernelState
from tests.unit.agent.stories import FRESH, INCARNATION, Story, key, launch, of_kind, problem_of, seen

EXITED = seen(state=KernelState.EXITED, exit_code=3)


def test_a_kernel_is_written_down_before_it_is_started() -> None:
    story = Story()
    done = story.creates(launch())

    assert story.records[-1] == KernelRequested(key(), {"cpu": 1000}, {}, "boot-1")
    assert done[0] == StartInstruction(launch())
    assert not of_kind(done, SendAnswer), "whether it starts is not known yet"


def test_asking_twice_starts_once_and_answers_both() -> None:
    story = Story()
    story.creates(launch())
    assert story.creates(launch()) == ()

    assert len(of_kind(story.happens(StartFinished(key())), SendAnswer)) == 2
    assert of_kind(story.creates(launch()), SendAnswer)
    assert len(of_kind(tuple(story.done), StartInstruction)) == 1


def test_a_kernel_that_has_ended_is_not_started_again() -> None:
    story = Story()
    story.starts(launch())
    story.observes(EXITED)

    assert [type(done) for done in story.creates(launch())] == [SendAnswer]


def test_a_create_for_another_incarnation_is_refused() -> None:
    story = Story()

    assert problem_of(story.creates(launch(), incarnation=INCARNATION + 1)) == "other-incarnation"
    assert problem_of(story.creates(launch(), incarnation=0)) == "other-incarnation"


def test_a_create_that_comes_after_its_stop_is_refused() -> None:
    story = Story()
    gone = story.stops(key())
    assert gone is not None
    assert gone.gone
    assert story.records[-1] == KernelEntombed(key(), INCARNATION)

    assert problem_of(story.creates(launch())) == "tombstone"


def test_the_tombstone_is_a_record_of_the_same_step_as_the_answer() -> None:
    story = Story()
    story.starts(launch())
    story.observes(EXITED)
    before = len(story.records)
    gone = story.stops(key())

    assert gone is not None
    assert (gone.gone, gone.exit_code) == (True, 3)
    assert story.records[before:] == [KernelEntombed(key(), INCARNATION, 3)]


def test_a_kernel_that_runs_is_not_gone_however_often_it_is_asked() -> None:
    story = Story()
    story.starts(launch())
    for _ in range(3):
        gone = story.stops(key())
        assert gone is not None
        assert not gone.gone

    assert of_kind(tuple(story.done), StopInstruction) == [StopInstruction(key(), 3.0)] * 3
    assert not story.holdings.tombstones


def test_a_kernel_that_is_stopped_while_it_starts_is_stopped_when_it_has_started() -> None:
    story = Story()
    story.creates(launch())
    gone = story.stops(key())
    assert gone is not None
    assert not gone.gone
    assert not of_kind(tuple(story.done), StopInstruction), "the runtime does not know it yet"

    assert StopInstruction(key(), 3.0) in story.happens(StartFinished(key()))
    assert problem_of(story.creates(launch())) == "stopping"


def test_a_kernel_that_is_stopped_while_it_starts_and_fails_to_start_is_gone() -> None:
    story = Story()
    story.creates(launch())
    story.stops(key())
    story.happens(StartFinished(key(), problem="no such image", code="image-unavailable"))

    gone = story.stops(key())
    assert gone is not None
    assert gone.gone
    assert problem_of(story.creates(launch())) == "tombstone"


def test_a_stop_for_another_incarnation_is_refused() -> None:
    story = Story()
    story.starts(launch())

    assert story.stops(key(), incarnation=INCARNATION + 1) is None
    assert not of_kind(tuple(story.done), StopInstruction)


def test_nothing_is_promised_before_the_first_look_at_the_machine() -> None:
    story = Story(replace(FRESH, incarnation=INCARNATION), looks=False)

    assert story.stops(key()) is None
    assert problem_of(story.creates(launch())) == "not-ready"


def test_an_ended_kernel_is_forgotten_by_the_runtime_and_never_created_again() -> None:
    story = Story()
    story.starts(launch())
    story.observes(EXITED)
    done = story.forgets(key())

    assert done[0] == ForgetInstruction(key())
    assert story.records[-2:] == [KernelEntombed(key(), INCARNATION, 3), KernelForgotten(key())]
    assert problem_of(story.creates(launch())) == "tombstone"
    assert of_kind(story.forgets(key()), SendAnswer), "asking again is no error"


def test_a_running_kernel_is_not_forgotten() -> None:
    story = Story()
    story.starts(launch())

    assert problem_of(story.forgets(key())) == "not-over"
    assert story.held(key()).phase is KernelPhase.RUNNING
    assert problem_of(story.forgets(key(), incarnation=9)) == "other-incarnation"


def test_a_kernel_that_was_written_down_but_never_began_is_begun_by_the_next_create() -> None:
    story = Story()
    story.creates(launch())
    story = Story(memory=story.memory)
    assert story.held(key()).phase is KernelPhase.UNSTARTED

    assert of_kind(story.creates(launch()), StartInstruction) == [StartInstruction(launch())]
    assert len(of_kind(story.happens(StartFinished(key())), SendAnswer)) == 1


def test_a_kernel_that_was_written_down_but_never_began_is_gone_when_stopped() -> None:
    story = Story()
    story.creates(launch())
    story = Story(memory=story.memory)
    gone = story.stops(key())

    assert gone is not None
    assert gone.gone
    assert story.records[-2:] == [KernelEntombed(key(), INCARNATION), KernelWithdrawn(key())]


def test_a_create_claims_a_kernel_whose_record_was_lost() -> None:
    story = Story()
    story.observes(seen(state=KernelState.RUNNING))
    done = story.creates(launch())

    assert [type(step) for step in done] == [SendAnswer]
    assert story.held(key()).phase is KernelPhase.RUNNING
    assert not story.holdings.strangers


def test_a_stranger_is_not_gone_until_it_is() -> None:
    story = Story()
    story.observes(seen(state=KernelState.RUNNING))
    gone = story.stops(key(), grace_s=1.0)
    assert gone is not None
    assert not gone.gone
    assert StopInstruction(key(), 1.0) in story.done

    story.observes(seen(state=KernelState.EXITED))
    gone = story.stops(key())
    assert gone is not None
    assert gone.gone


def prepared(story: Story, *, incarnation: int = INCARNATION) -> tuple[object, ...]:
    return story.happens(PrepareRequested(story.token(), incarnation, "python"))


def test_an_image_is_looked_after_once_and_everybody_is_answered_with_the_first_news() -> None:
    story = Story()
    assert prepared(story) == (PrepareInstruction("python"),)
    assert prepared(story) == ()
    report = ImageReport("python", ImageState.PULLING, "1 of 3")
    answers = of_kind(story.happens(ImageProgressed(report)), SendAnswer)

    assert [answer.word for answer in answers] == [report, report]


def test_an_image_that_is_on_its_way_is_reported_as_far_as_it_is() -> None:
    story = Story()
    prepared(story)
    story.happens(ImageProgressed(ImageReport("python", ImageState.PULLING, "1 of 3")))
    story.happens(ImageProgressed(ImageReport("python", ImageState.PULLING, "2 of 3")))
    [answer] = prepared(story)

    assert isinstance(answer, SendAnswer)
    assert answer.word == ImageReport("python", ImageState.PULLING, "2 of 3")


def test_an_image_that_was_ready_or_failed_is_looked_at_again() -> None:
    for state in (ImageState.READY, ImageState.FAILED):
        story = Story()
        story.happens(ImageProgressed(ImageReport("python", state)))
        assert prepared(story) == (PrepareInstruction("python"),)


def test_an_image_for_another_incarnation_is_refused() -> None:
    done = Story()
    assert [type(step).__name__ for step in prepared(done, incarnation=5)] == ["SendProblem"]
