"""A session's status follows from its kernels: for all of them, at every step, without a jump.

Nothing here is random: up to four kernels in ten statuses are few enough to try them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement, permutations, product

import pytest

from sokovan.domain.lifecycle.kernel import ALIVE, KERNEL, KernelStatus, KernelTrigger
from sokovan.domain.lifecycle.session import SESSION, Goal, SessionIntent, SessionStatus, session_status

Kernels = tuple[KernelStatus, ...]
Step = tuple[Kernels, KernelTrigger, Kernels]

KERNEL_COUNT = 3
NOT_BOUND = {KernelStatus.PENDING, KernelStatus.CANCELLED}
# The statuses in which a failed start is retried.
RETRIED = {SessionStatus(status.value) for status in ALIVE} - {SessionStatus.RUNNING}
ENDING = {KernelStatus.TERMINATING, KernelStatus.TERMINATED}
INTENTS = [SessionIntent(goal, required) for goal in Goal for required in range(1, 5)]

every_minimum = pytest.mark.parametrize("required", range(1, KERNEL_COUNT + 1))
every_goal = pytest.mark.parametrize("goal", Goal, ids=lambda goal: goal.name)
every_intent = pytest.mark.parametrize("intent", INTENTS, ids=lambda intent: f"{intent.goal.name}-{intent.required}")


def every_multiset() -> Iterator[Kernels]:
    for count in range(5):
        yield from combinations_with_replacement(KernelStatus, count)


@cache
def every_order() -> list[tuple[Kernels, set[Kernels]]]:
    """Every multiset with all its orders."""
    return [(kernels, set(permutations(kernels))) for kernels in every_multiset()]


def one_kernel_moves(kernels: Kernels) -> Iterator[tuple[KernelTrigger, Kernels]]:
    """Every way in which the table lets one kernel move."""
    for at, status in enumerate(kernels):
        for move in KERNEL.moves:
            if move.before == status:
                yield move.trigger, tuple(sorted((*kernels[:at], move.after, *kernels[at + 1 :])))


def gang_allocations(kernels: Kernels, required: int) -> Iterator[tuple[KernelTrigger, Kernels]]:
    """The first allocation binds at least as many kernels together as the session requires."""
    waiting = kernels.count(KernelStatus.PENDING)
    for bound in range(required, waiting + 1):
        others = list(kernels)
        for _ in range(bound):
            others.remove(KernelStatus.PENDING)
        yield KernelTrigger.ALLOCATED, tuple(sorted([*others, *[KernelStatus.SCHEDULED] * bound]))


def retries(kernels: Kernels, required: int) -> Iterator[tuple[KernelTrigger, Kernels]]:
    """A failed start ends all kernels of the attempt together; a session that runs is not retried."""
    status = session_status(SessionIntent(Goal.RUN, required), kernels)
    if status in RETRIED:
        ended = (KernelStatus.TERMINATING if one in ALIVE else one for one in kernels)
        yield KernelTrigger.RETRY_REQUESTED, tuple(sorted(ended))


def spares(kernels: Kernels, required: int) -> Iterator[tuple[KernelTrigger, Kernels]]:
    """An eviction that is withdrawn: all of its kernels run again together."""
    evicted = kernels.count(KernelStatus.TERMINATING)
    if evicted >= required and set(kernels) <= {KernelStatus.TERMINATING, *NOT_BOUND}:
        yield (
            KernelTrigger.SPARED,
            tuple(sorted(KernelStatus.RUNNING if one is KernelStatus.TERMINATING else one for one in kernels)),
        )


def steps_from(kernels: Kernels, required: int, *, retried: bool) -> Iterator[tuple[KernelTrigger, Kernels]]:
    """The steps of a session; while its attempt ends, one that is retried gets no place."""
    together = {KernelTrigger.RETRY_REQUESTED, KernelTrigger.SPARED}
    moves = [step for step in one_kernel_moves(kernels) if step[0] not in together]
    if retried:
        yield from (step for step in moves if step[0] is not KernelTrigger.ALLOCATED)
        return
    moves = [step for step in moves if step[0] is not KernelTrigger.REQUEUED]
    yield from retries(kernels, required)
    yield from spares(kernels, required)
    if set(kernels) <= NOT_BOUND:
        yield from gang_allocations(kernels, required)
        yield from (step for step in moves if step[0] is not KernelTrigger.ALLOCATED)
    else:
        yield from moves


@cache
def labelled_steps(required: int) -> tuple[tuple[Step, bool], ...]:
    """Every step that a session of three kernels can take, and whether it is retried then."""
    start: tuple[Kernels, bool] = ((KernelStatus.PENDING,) * KERNEL_COUNT, False)
    found, left, taken = {start}, [start], []
    while left:
        before, retried = left.pop()
        for trigger, after in steps_from(before, required, retried=retried):
            taken.append(((before, trigger, after), retried))
            begun = retried or trigger is KernelTrigger.RETRY_REQUESTED
            state = after, begun and bool(ENDING & set(after))
            if state not in found:
                found.add(state)
                left.append(state)
    return tuple(taken)


def steps(required: int) -> tuple[Step, ...]:
    return tuple(step for step, _ in labelled_steps(required))


def reached(required: int) -> set[Kernels]:
    return {kernels for before, _, after in steps(required) for kernels in (before, after)}


_ONLY_WHILE_IT_RUNS = {
    KernelTrigger.ALLOCATED,
    KernelTrigger.RETRY_REQUESTED,
    KernelTrigger.REQUEUED,
    KernelTrigger.SPARED,
}


def offered(goal: Goal, required: int) -> Iterator[Step]:
    """The steps that can happen under a goal: what shall end is offered no place and not retried any more."""
    for (before, trigger, after), retried in labelled_steps(required):
        if goal is Goal.RUN:
            # The proof that frees a kernel of a retried session lets it wait again.
            if not (retried and trigger is KernelTrigger.GONE):
                yield before, trigger, after
        elif trigger not in _ONLY_WHILE_IT_RUNS:
            yield before, trigger, after


def none_or_legal(before: SessionStatus, after: SessionStatus) -> bool:
    return before == after or (before, after) in {(move.before, move.after) for move in SESSION.moves}


@every_intent
def test_every_multiset_of_kernels_has_one_status_in_whatever_order(intent: SessionIntent) -> None:
    for kernels, orders in every_order():
        status = session_status(intent, kernels)
        assert isinstance(status, SessionStatus)
        assert {session_status(intent, order) for order in orders} == {status}


@every_intent
def test_a_session_runs_exactly_when_enough_kernels_do_and_nothing_ends(intent: SessionIntent) -> None:
    for kernels in every_multiset():
        enough = kernels.count(KernelStatus.RUNNING) >= intent.required
        should_run = enough and not ENDING & set(kernels) and intent.goal is Goal.RUN
        assert (session_status(intent, kernels) is SessionStatus.RUNNING) == should_run


@every_intent
def test_a_session_is_cancelled_only_if_no_kernel_was_ever_bound(intent: SessionIntent) -> None:
    for kernels in every_multiset():
        if session_status(intent, kernels) in {SessionStatus.CANCELLED, SessionStatus.PENDING}:
            assert set(kernels) <= NOT_BOUND


@every_intent
def test_without_force_a_session_ends_only_with_its_last_kernel(intent: SessionIntent) -> None:
    for kernels in every_multiset():
        if session_status(intent, kernels) is SessionStatus.TERMINATED and intent.goal is not Goal.FORCE:
            assert set(kernels) <= {KernelStatus.TERMINATED, KernelStatus.CANCELLED}


def test_the_exploration_covers_every_status_of_kernel_and_session() -> None:
    for required in range(1, KERNEL_COUNT + 1):
        assert {status for kernels in reached(required) for status in kernels} == set(KernelStatus)
        assert {session_status(SessionIntent(Goal.RUN, required), k) for k in reached(required)} == set(SessionStatus)
        assert {move.trigger for move in KERNEL.moves} == {trigger for _, trigger, _ in steps(required)}


@every_minimum
def test_no_step_binds_fewer_kernels_than_the_session_requires(required: int) -> None:
    for (before, trigger, after), retried in labelled_steps(required):
        if retried or trigger is KernelTrigger.RETRY_REQUESTED:
            continue  # the kernels of a failed attempt are freed one by one
        for kernels in (before, after):
            bound = sum(status not in NOT_BOUND for status in kernels)
            assert bound == 0 or bound >= required


@every_goal
@every_minimum
def test_each_kernel_move_is_a_legal_move_of_its_session(required: int, goal: Goal) -> None:
    intent = SessionIntent(goal, required)
    for before, trigger, after in offered(goal, required):
        was, now = session_status(intent, before), session_status(intent, after)
        assert none_or_legal(was, now), (before, trigger, was, now)


@pytest.mark.parametrize(("goal", "raised"), [(Goal.RUN, Goal.STOP), (Goal.STOP, Goal.FORCE)], ids=["stop", "force"])
@every_minimum
def test_raising_the_goal_by_one_step_is_a_legal_move_of_the_session(required: int, goal: Goal, raised: Goal) -> None:
    for kernels in reached(required):
        before = session_status(SessionIntent(goal, required), kernels)
        after = session_status(SessionIntent(raised, required), kernels)
        assert none_or_legal(before, after), (kernels, before, after)


@every_goal
@every_minimum
def test_a_final_session_stays_as_it_is_whatever_its_kernels_still_do(required: int, goal: Goal) -> None:
    intent = SessionIntent(goal, required)
    for before, trigger, after in offered(goal, required):
        if session_status(intent, before) in SESSION.terminal:
            assert session_status(intent, after) == session_status(intent, before), (before, trigger, after)


@every_minimum
def test_a_session_stays_final_when_it_is_stopped_or_forced_again(required: int) -> None:
    for kernels, (goal, raised) in product(reached(required), [(Goal.RUN, Goal.STOP), (Goal.STOP, Goal.FORCE)]):
        before = session_status(SessionIntent(goal, required), kernels)
        if before in SESSION.terminal:
            assert session_status(SessionIntent(raised, required), kernels) == before


@every_minimum
def test_kernels_beyond_the_minimum_never_set_a_session_back(required: int) -> None:
    order = [SessionStatus(status.value) for status in ALIVE]
    intent = SessionIntent(Goal.RUN, required)
    for before, _, after in steps(required):
        was, now = session_status(intent, before), session_status(intent, after)
        if was in order and now in order:
            assert order.index(was) <= order.index(now)
