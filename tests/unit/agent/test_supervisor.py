"""Invariants of the agent's state machine under any order of events."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs

from sokovan.agent.journal_records import IncarnationTaken, JournalState, KernelKey, replayed
from sokovan.agent.kernel_table import KernelPhase, Token, live_slots, restored
from sokovan.agent.messages import (
    CreateRequested,
    DevicesChecked,
    Event,
    ForgetInstruction,
    ForgetRequested,
    ImageProgressed,
    Instruction,
    LinkClosed,
    LinkOpened,
    Observed,
    ObstacleObserved,
    PrepareRequested,
    SendAnswer,
    SendHeartbeat,
    SendProblem,
    StartFinished,
    StartInstruction,
    StopInstruction,
    StopRequested,
)
from sokovan.agent.supervisor import IMAGES_MAX, step
from sokovan.domain.ids import KernelId
from sokovan.domain.slots import ResourceSlot, total
from sokovan.ports.agent_gateway import GoneProof, ImageReport, ImageState
from sokovan.ports.runtime import KernelState, Observation
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


def test_a_new_incarnation_is_recorded_and_reported() -> None:
    agent = SupervisorHarness(connected=False)
    done = agent.apply(LinkOpened(1, 5))

    assert agent.records == [IncarnationTaken(5)]
    assert done == (SendHeartbeat(),)


def test_a_manager_that_lags_behind_does_not_lower_the_incarnation() -> None:
    agent = SupervisorHarness(connected=False)
    agent.apply(LinkOpened(1, 5))
    agent.apply(LinkOpened(2, 4))

    assert agent.table.incarnation == 5
    assert agent.records == [IncarnationTaken(5)]


def test_kernels_of_an_earlier_incarnation_go_on() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    done = agent.apply(LinkOpened(2, INCARNATION + 1))

    assert agent.kernel(key()).phase is KernelPhase.RUNNING
    assert not of_kind(done, StopInstruction)
    assert agent.stop(key()) is None, "the old incarnation has nothing to say"
    assert agent.stop(key(), incarnation=INCARNATION + 1) is not None


def test_an_obstacle_stops_new_kernels_only() -> None:
    agent = SupervisorHarness()
    agent.start(launch())
    agent.apply(ObstacleObserved("the disk is full"))

    assert problem_of(agent.create(launch("k2"))) == "no-room"
    assert not problem_of(agent.create(launch())), "this one is there already"
    agent.apply(ObstacleObserved(""))
    assert StartInstruction(launch("k2")) in agent.create(launch("k2"))


def test_a_fault_of_a_device_is_reported_and_stops_new_kernels_on_it_only() -> None:
    agent = SupervisorHarness()
    on_first, on_second = ({"cuda.device": (device,)} for device in ("gpu0", "gpu1"))
    agent.start(launch(devices=on_first))
    assert SendHeartbeat() in agent.apply(DevicesChecked({"gpu0": "it is lost"}))
    assert SendHeartbeat() not in agent.apply(DevicesChecked({"gpu0": "it is lost"}))

    assert agent.kernel(key()).phase is KernelPhase.RUNNING
    assert problem_of(agent.create(launch("k2", devices=on_first))) == "no-room"
    assert not problem_of(agent.create(launch("k3", devices=on_second)))
    assert SendHeartbeat() in agent.apply(DevicesChecked({}))


def test_a_kernel_that_could_not_start_may_be_tried_again() -> None:
    agent = SupervisorHarness()
    agent.create(launch())
    done = agent.apply(StartFinished(key(), problem="no such image", code="image-unavailable"))

    assert of_kind(done, SendProblem) == [SendProblem(Token(1, 1), "image-unavailable", "no such image")]
    assert SendHeartbeat() in done
    assert not agent.journal.kernels
    assert StartInstruction(launch()) in agent.create(launch())


def test_no_request_of_a_closed_link_is_answered() -> None:
    agent = SupervisorHarness()
    agent.create(launch())
    agent.apply(CreateRequested(Token(2, 1), INCARNATION, launch()))
    agent.apply(PrepareRequested(Token(1, 9), INCARNATION, "python"))
    agent.apply(LinkClosed(1))

    assert of_kind(agent.apply(StartFinished(key())), SendAnswer) == [SendAnswer(Token(2, 1))]
    assert not of_kind(agent.apply(ImageProgressed(ImageReport("python", ImageState.READY))), SendAnswer)


def test_a_kernel_whose_start_left_traces_runs_before_it_is_observed() -> None:
    agent = SupervisorHarness()
    agent.create(launch())
    agent.create(launch("k2"))

    assert SendHeartbeat() in agent.apply(StartFinished(key(), traces="a process"))
    assert agent.kernel(key()).phase is KernelPhase.RUNNING
    assert SendHeartbeat() not in agent.apply(StartFinished(key("k2")))
    assert agent.kernel(key("k2")).phase is KernelPhase.REQUESTED


def test_the_end_of_an_unknown_start_changes_nothing() -> None:
    agent = SupervisorHarness()

    assert agent.apply(StartFinished(key("never"))) == ()


def test_an_image_is_reported_when_its_state_changes_and_not_for_every_line() -> None:
    agent = SupervisorHarness()
    pulling = ImageReport("python", ImageState.PULLING, "1 of 9")

    assert SendHeartbeat() in agent.apply(ImageProgressed(pulling))
    assert SendHeartbeat() not in agent.apply(ImageProgressed(replace(pulling, detail="2 of 9")))
    assert SendHeartbeat() in agent.apply(ImageProgressed(replace(pulling, state=ImageState.READY)))


def test_only_so_many_images_are_remembered() -> None:
    agent = SupervisorHarness()
    for number in range(IMAGES_MAX + 5):
        agent.apply(ImageProgressed(ImageReport(f"image-{number}", ImageState.READY)))

    assert len(agent.table.images) == IMAGES_MAX
    assert "image-4" not in agent.table.images


NAMES = st.sampled_from(["a", "b", "c"])
ATTEMPTS = st.integers(1, 2)
# Two of three fit; c alone fits.
WANTS = {"a": 2000, "b": 2000, "c": 4000}
CAPACITY = ResourceSlot({"cpu": 4000})
ROUNDS = 8


class Machine(RuleBasedStateMachine):
    """A machine, its runtime, and managers whose requests come in any order, twice, and late.

    The agent may be killed at any moment: its table and what it was about to do are
    lost, the journal and the processes are not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fresh = structs.replace(FRESH, capacity=CAPACITY, device_units={}, kernels_max=None)
        self.memory = JournalState()
        self.incarnation = 0
        self.processes: dict[KernelKey, KernelState] = {}
        self.promised: dict[KernelKey, int] = {}
        self.started: list[KernelKey] = []
        self._begin()

    def _begin(self) -> None:
        self.table = restored(self.fresh, self.memory)
        self.tasks: list[Instruction] = []
        self.news: list[Event] = []
        self.watching: Observed | None = None
        self.happens(self._observed())
        self.enrol()

    def happens(self, event: Event) -> None:
        done = step(self.table, event)
        self.memory = replayed(self.memory, done.records)
        self.table = done.table
        for instruction in done.instructions:
            match instruction:
                case StartInstruction() | StopInstruction() | ForgetInstruction():
                    self.tasks.append(instruction)
                case SendAnswer(_, GoneProof(gone=True)):
                    assert isinstance(event, StopRequested)
                    self.promised.setdefault(event.key, self.incarnation)
                case _:
                    pass

    def _observed(self) -> Observed:
        shown = tuple(
            Observation(key.kernel_id, key.attempt, state, exit_code=0 if state is KernelState.EXITED else None)
            for key, state in self.processes.items()
        )
        return Observed(shown, self.table.tick, now_ms=0)

    @rule()
    def enrol(self) -> None:
        self.incarnation += 1
        self.happens(LinkOpened(1, self.incarnation))

    @rule(name=NAMES, attempt=ATTEMPTS, late=st.booleans())
    def create(self, name: str, attempt: int, late: bool) -> None:
        wanted = launch(name, attempt, slots={"cpu": WANTS[name]})
        # A manager that has the promise does not ask again; what it had asked for before may still be on its way.
        asked_as = self.promised.get(key(name, attempt), self.incarnation)
        self.happens(CreateRequested(Token(1, 1), asked_as - late, wanted))

    @rule(name=NAMES, attempt=ATTEMPTS, late=st.booleans())
    def stop(self, name: str, attempt: int, late: bool) -> None:
        self.happens(StopRequested(Token(1, 1), self.incarnation - late, KernelKey(KernelId(name), attempt), 1.0))

    @rule(name=NAMES, attempt=ATTEMPTS, late=st.booleans())
    def forget(self, name: str, attempt: int, late: bool) -> None:
        self.happens(ForgetRequested(Token(1, 1), self.incarnation - late, KernelKey(KernelId(name), attempt)))

    @precondition(lambda self: self.tasks)
    @rule(which=st.integers(0, 9), luck=st.booleans())
    def do(self, which: int, luck: bool) -> None:
        task = self.tasks.pop(which % len(self.tasks))
        match task:
            case StartInstruction():
                started = KernelKey.of(task.launch)
                if luck or started in self.processes:
                    self._start(started)
                    self.news.append(StartFinished(started))
                else:
                    self.news.append(StartFinished(started, problem="no luck", code="runtime-failure"))
            case StopInstruction() if self.processes.get(task.key) is KernelState.RUNNING:
                self.processes[task.key] = KernelState.STOPPING
            case ForgetInstruction() if self.processes.get(task.key) is KernelState.EXITED:
                del self.processes[task.key]
            case _:
                pass

    def _start(self, key: KernelKey) -> None:
        if key not in self.processes:
            self.processes[key] = KernelState.RUNNING
            self.started.append(key)

    @precondition(lambda self: self.news)
    @rule(which=st.integers(0, 9))
    def hear(self, which: int) -> None:
        self.happens(self.news.pop(which % len(self.news)))

    @precondition(lambda self: self.processes)
    @rule(which=st.integers(0, 9))
    def end(self, which: int) -> None:
        self.processes[list(self.processes)[which % len(self.processes)]] = KernelState.EXITED

    @rule()
    def watch(self) -> None:
        """An observation begins; what it shows is heard of later."""
        self.watching = self._observed()

    @precondition(lambda self: self.watching)
    @rule()
    def watched(self) -> None:
        assert self.watching is not None
        self.happens(self.watching)
        self.watching = None

    @rule(which=st.integers(0, 9))
    def kill(self, which: int) -> None:
        """Kill the agent, with one of its starts just done or not."""
        starts = [task for task in self.tasks if isinstance(task, StartInstruction)]
        if starts and which % 2:
            wanted = starts[which % len(starts)].launch
            self._start(KernelKey.of(wanted))
        self._begin()

    def alive(self) -> list[KernelKey]:
        return [key for key, state in self.processes.items() if state is not KernelState.EXITED]

    @invariant()
    def no_kernel_lives_twice(self) -> None:
        names = [key.kernel_id for key in self.alive()]
        assert len(names) == len(set(names))

    @invariant()
    def nothing_is_started_twice(self) -> None:
        assert len(self.started) == len(set(self.started))

    @invariant()
    def the_machine_is_never_overfull(self) -> None:
        assert sum(WANTS[key.kernel_id] for key in self.alive()) <= CAPACITY["cpu"]
        assert total(live_slots(self.table)).fits(CAPACITY)
        assert total(live_slots(self.table)) == total(held.slots for _, held in self.table.live())

    @invariant()
    def a_promise_is_kept(self) -> None:
        assert not set(self.promised).intersection(self.alive())

    @invariant()
    def every_process_is_answered_for(self) -> None:
        assert set(self.alive()) <= set(self.table.kernels)

    @invariant()
    def the_journal_knows_what_the_agent_knows(self) -> None:
        assert set(self.memory.kernels) == set(self.table.kernels)
        assert self.memory.tombstones == self.table.tombstones
        assert self.memory.incarnation == self.table.incarnation

    def teardown(self) -> None:
        """A manager that keeps retrying gets every kernel ended."""
        keys = [KernelKey(KernelId(name), attempt) for name in WANTS for attempt in (1, 2)]
        for _ in range(ROUNDS):
            for which in keys:
                self.stop(which.kernel_id, which.attempt, late=False)
                self.forget(which.kernel_id, which.attempt, late=False)
            while self.tasks:
                self.do(0, luck=True)
            while self.news:
                self.hear(0)
            for which, state in self.processes.items():
                self.processes[which] = KernelState.EXITED if state is KernelState.STOPPING else state
            self.happens(self._observed())
            self.no_kernel_lives_twice()
            self.a_promise_is_kept()
        assert not self.processes
        assert not self.table.kernels
        assert set(self.promised) >= set(keys)


test_no_order_of_events_breaks_the_invariants = Machine.TestCase


def test_the_machine_of_the_invariants_does_start_things() -> None:
    """Check that the invariants are not kept by doing nothing."""
    machine = Machine()
    machine.create("a", 1, late=False)
    machine.do(0, luck=True)
    machine.hear(0)
    machine.watch()
    machine.watched()

    assert machine.alive() == [key("a")]
    assert machine.table.kernels[key("a")].phase is KernelPhase.RUNNING
    assert seen("a", state=KernelState.RUNNING).kernel_id == "a"
    machine.teardown()
