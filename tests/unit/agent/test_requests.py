"""Requests that come twice, late, or out of turn."""

from __future__ import annotations

from msgspec.structs import replace

from sokovan.agent.journal_records import KernelEntombed, KernelForgotten, KernelRequested, KernelWithdrawn
from sokovan.agent.kernel_table import KeepLimits, KernelPhase, reports
from sokovan.agent.messages import (
    ForgetInstruction,
    ForgetRequested,
    ImageProgressed,
    LinkOpened,
    PrepareInstruction,
    PrepareRequested,
    SendAnswer,
    SendHeartbeat,
    StartFinished,
    StartInstruction,
    StopInstruction,
    StopRequested,
)
from sokovan.ports.agent_gateway import ImageReport, ImageState
from sokovan.ports.runtime import KernelState
from tests.unit.agent.supervisor_harness import (
    FRESH,
    INCARNATION,
    SupervisorHarness,
    key,
    launch,
    of_kind,
    problem_of,
    seen,
)

EXITED = seen(state=KernelState.EXITED, exit_code=3)


def test_a_kernel_is_written_down_before_it_is_started() -> None:
    agent = SupervisorHarness()
    done = agent.create(launch())

    assert agent.records[-1] == KernelRequested(key(), {"cpu": 1000}, {}, "boot-1")
    assert done[0] == StartInstruction(launch())
    assert not of_kind(done, SendAnswer), "whether it starts is not known yet"


def test_asking_twice_starts_once_and_answers_both() -> None:
    agent = SupervisorHarness()
    agent.create(launch())
    assert agent.create(launch()) == ()

    assert len(of_kind(agent.apply(StartFinished(key())), SendAnswer)) == 2
    assert of_kind(agent.create(launch()), SendAnswer)
    assert len(of_kind(tuple(agent.done), StartInstruction)) == 1


def test_a_kernel_that_has_ended_is_not_started_again() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    agent.observe(EXITED)

    assert [type(done) for done in agent.create(launch())] == [SendAnswer]


def test_a_create_for_another_incarnation_is_refused() -> None:
    agent = SupervisorHarness()

    assert problem_of(agent.create(launch(), incarnation=INCARNATION + 1)) == "other-incarnation"
    assert problem_of(agent.create(launch(), incarnation=0)) == "other-incarnation"


def test_a_create_that_comes_after_its_stop_is_refused() -> None:
    agent = SupervisorHarness()
    gone = agent.stop(key())
    assert gone is not None
    assert gone.gone
    assert agent.records[-1] == KernelEntombed(key(), INCARNATION)

    assert problem_of(agent.create(launch())) == "tombstone"


def test_the_tombstone_is_a_record_of_the_same_step_as_the_answer() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    agent.observe(EXITED)
    before = len(agent.records)
    gone = agent.stop(key())

    assert gone is not None
    assert (gone.gone, gone.exit_code) == (True, 3)
    assert agent.records[before:] == [KernelEntombed(key(), INCARNATION, 3, by_itself=True)]


def test_a_kernel_that_runs_is_not_gone_however_often_it_is_asked() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    for _ in range(3):
        gone = agent.stop(key())
        assert gone is not None
        assert not gone.gone

    assert of_kind(tuple(agent.done), StopInstruction) == [StopInstruction(key(), 3.0)] * 3
    assert not agent.table.tombstones


def test_a_kernel_that_is_stopped_while_it_starts_is_stopped_when_it_has_started() -> None:
    agent = SupervisorHarness()
    agent.create(launch())
    gone = agent.stop(key())
    assert gone is not None
    assert not gone.gone
    assert not of_kind(tuple(agent.done), StopInstruction), "the runtime does not know it yet"

    assert StopInstruction(key(), 3.0) in agent.apply(StartFinished(key()))
    assert problem_of(agent.create(launch())) == "stopping"


def test_a_kernel_that_is_stopped_while_it_starts_and_fails_to_start_is_gone() -> None:
    agent = SupervisorHarness()
    agent.create(launch())
    agent.stop(key())
    agent.apply(StartFinished(key(), problem="no such image", code="image-unavailable"))

    gone = agent.stop(key())
    assert gone is not None
    assert gone.gone
    assert problem_of(agent.create(launch())) == "tombstone"


def test_a_stop_for_another_incarnation_is_refused() -> None:
    agent = SupervisorHarness()
    agent.start(launch())

    assert agent.stop(key(), incarnation=INCARNATION + 1) is None
    assert not of_kind(tuple(agent.done), StopInstruction)


def test_nothing_is_promised_before_the_first_look_at_the_machine() -> None:
    agent = SupervisorHarness(replace(FRESH, incarnation=INCARNATION), connected=False)

    assert agent.stop(key()) is None
    assert problem_of(agent.create(launch())) == "not-ready"


def test_an_ended_kernel_is_forgotten_by_the_runtime_and_never_created_again() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    agent.observe(EXITED)
    done = agent.forget(key())

    assert done[0] == ForgetInstruction(key())
    assert agent.records[-2:] == [KernelEntombed(key(), INCARNATION, 3), KernelForgotten(key())]
    assert problem_of(agent.create(launch())) == "tombstone"
    assert of_kind(agent.forget(key()), SendAnswer), "asking again is no error"


def test_a_running_kernel_is_not_forgotten() -> None:
    agent = SupervisorHarness()
    agent.start(launch())

    assert problem_of(agent.forget(key())) == "not-over"
    assert agent.kernel(key()).phase is KernelPhase.RUNNING
    assert problem_of(agent.forget(key(), incarnation=9)) == "other-incarnation"


def test_a_kernel_that_was_written_down_but_never_began_is_begun_by_the_next_create() -> None:
    agent = SupervisorHarness()
    agent.create(launch())
    agent = SupervisorHarness(journal=agent.journal)
    assert agent.kernel(key()).phase is KernelPhase.UNSTARTED

    assert of_kind(agent.create(launch()), StartInstruction) == [StartInstruction(launch())]
    assert len(of_kind(agent.apply(StartFinished(key())), SendAnswer)) == 1


def test_a_kernel_that_was_written_down_but_never_began_is_gone_when_stopped() -> None:
    agent = SupervisorHarness()
    agent.create(launch())
    agent = SupervisorHarness(journal=agent.journal)
    gone = agent.stop(key())

    assert gone is not None
    assert gone.gone
    assert agent.records[-2:] == [KernelEntombed(key(), INCARNATION), KernelWithdrawn(key())]


def test_a_create_claims_a_kernel_whose_record_was_lost() -> None:
    agent = SupervisorHarness()
    agent.observe(seen(state=KernelState.RUNNING))
    done = agent.create(launch())

    assert [type(step) for step in done] == [SendAnswer]
    assert agent.kernel(key()).phase is KernelPhase.RUNNING
    assert not agent.table.orphans


def test_a_stranger_is_not_gone_until_it_is() -> None:
    agent = SupervisorHarness()
    agent.observe(seen(state=KernelState.RUNNING))
    gone = agent.stop(key(), grace_s=1.0)
    assert gone is not None
    assert not gone.gone
    assert StopInstruction(key(), 1.0) in agent.done

    agent.observe(seen(state=KernelState.EXITED))
    gone = agent.stop(key())
    assert gone is not None
    assert gone.gone


def prepared(agent: SupervisorHarness, *, incarnation: int = INCARNATION) -> tuple[object, ...]:
    return agent.apply(PrepareRequested(agent.token(), incarnation, "python"))


def test_an_image_is_looked_after_once_and_everybody_is_answered_with_the_first_news() -> None:
    agent = SupervisorHarness()
    assert prepared(agent) == (PrepareInstruction("python"),)
    assert prepared(agent) == ()
    report = ImageReport("python", ImageState.PULLING, "1 of 3")
    answers = of_kind(agent.apply(ImageProgressed(report)), SendAnswer)

    assert [answer.result for answer in answers] == [report, report]


def test_an_image_that_is_on_its_way_is_reported_as_far_as_it_is() -> None:
    agent = SupervisorHarness()
    prepared(agent)
    agent.apply(ImageProgressed(ImageReport("python", ImageState.PULLING, "1 of 3")))
    agent.apply(ImageProgressed(ImageReport("python", ImageState.PULLING, "2 of 3")))
    [answer] = prepared(agent)

    assert isinstance(answer, SendAnswer)
    assert answer.result == ImageReport("python", ImageState.PULLING, "2 of 3")


def test_an_image_that_was_ready_or_failed_is_looked_at_again() -> None:
    for state in (ImageState.READY, ImageState.FAILED):
        agent = SupervisorHarness()
        agent.apply(ImageProgressed(ImageReport("python", state)))
        assert prepared(agent) == (PrepareInstruction("python"),)


def test_an_image_for_another_incarnation_is_refused() -> None:
    done = SupervisorHarness()
    assert [type(step).__name__ for step in prepared(done, incarnation=5)] == ["SendProblem"]


def keeping(kernels_max: int = 10, seconds: int = 60) -> SupervisorHarness:
    agent = SupervisorHarness()
    agent.apply(LinkOpened(1, INCARNATION, KeepLimits(kernels_max, seconds)))
    return agent


def run_to_the_end(agent: SupervisorHarness, number: int) -> None:
    """One kernel starts, ends, and its end is confirmed."""
    agent.start(launch(f"k{number}"))
    agent.observe(seen(f"k{number}", state=KernelState.EXITED, exit_code=0))
    agent.apply(StopRequested(agent.token(), INCARNATION, key(f"k{number}"), 0.0))


def test_a_confirmed_end_is_listed_no_more_and_its_output_is_kept() -> None:
    agent = keeping()
    run_to_the_end(agent, 1)
    assert (reports(agent.table), list(agent.table.kernels)) == ((), [])
    assert ForgetInstruction(key("k1")) not in agent.done
    agent.observe(seen("k1", state=KernelState.EXITED, exit_code=0))
    assert ForgetInstruction(key("k1")) not in agent.done
    assert key("k1") in agent.journal.kernels


def test_a_confirmation_needs_no_heartbeat() -> None:
    agent = keeping()
    agent.start(launch("k1"))
    agent.observe(seen("k1", state=KernelState.EXITED, exit_code=0))
    assert SendHeartbeat() not in agent.apply(StopRequested(agent.token(), INCARNATION, key("k1"), 0.0))


def test_the_oldest_are_forgotten_beyond_the_number_that_is_kept() -> None:
    agent = keeping(kernels_max=2)
    for number in range(5):
        run_to_the_end(agent, number)
    assert [one.key for one in agent.done if isinstance(one, ForgetInstruction)] == [key("k0"), key("k1"), key("k2")]
    assert list(agent.journal.kernels) == list(agent.table.kept) == [key("k3"), key("k4")]


def test_what_was_kept_for_long_enough_is_forgotten() -> None:
    agent = keeping(seconds=60)
    run_to_the_end(agent, 1)
    for now_ms, is_forgotten in ((1_000, False), (60_999, False), (61_000, True)):
        agent.now_ms = now_ms
        agent.observe()
        assert (ForgetInstruction(key("k1")) in agent.done) is is_forgotten


def test_a_manager_may_forget_what_is_kept() -> None:
    agent = keeping()
    run_to_the_end(agent, 1)
    assert ForgetInstruction(key("k1")) in agent.apply(ForgetRequested(agent.token(), INCARNATION, key("k1")))
    assert not agent.table.kept


def test_managers_of_earlier_releases_see_ended_kernels_until_they_forget_them() -> None:
    agent = SupervisorHarness()
    run_to_the_end(agent, 1)
    assert [one.kernel_id for one in reports(agent.table)] == ["k1"]


def test_after_a_restart_confirmed_ends_are_kept_again() -> None:
    agent = keeping()
    run_to_the_end(agent, 1)
    again = SupervisorHarness(journal=agent.journal, connected=False)
    again.observe(seen("k1", state=KernelState.EXITED, exit_code=0))
    assert [one.kernel_id for one in reports(again.table)] == ["k1"]
    again.apply(LinkOpened(1, INCARNATION + 1, KeepLimits(10, 60)))
    again.observe(seen("k1", state=KernelState.EXITED, exit_code=0))
    assert (reports(again.table), list(again.table.kept)) == ((), [key("k1")])


def test_a_kernel_that_ended_before_it_was_asked_to_stop_is_said_to_have_ended_by_itself_also_again() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    agent.observe(EXITED)
    for _ in range(2):
        gone = agent.stop(key())
        assert gone is not None
        assert (gone.exit_code, gone.by_itself) == (3, True)

    assert agent.records[-1] == KernelEntombed(key(), INCARNATION, 3, by_itself=True)
    assert agent.journal.tombstones[key()].by_itself


def test_a_kernel_that_ended_after_a_request_to_stop_did_not_end_by_itself() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    agent.stop(key())
    agent.observe(EXITED)
    gone = agent.stop(key())

    assert gone is not None
    assert (gone.gone, gone.by_itself) == (True, False)


def test_a_kernel_from_before_a_restart_may_have_been_asked_to_stop_and_counts_as_such() -> None:
    before = SupervisorHarness()
    before.start(launch())
    agent = SupervisorHarness(journal=before.journal)
    agent.observe(EXITED)
    gone = agent.stop(key())

    assert gone is not None
    assert (gone.gone, gone.by_itself) == (True, False)
