"""A journal is the sum of its records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.agent import journal_records
from sokovan.agent.journal_records import (
    IncarnationTaken,
    JournalRecord,
    JournalState,
    KernelEntombed,
    KernelForgotten,
    KernelKey,
    KernelRequested,
    KernelStarted,
    KernelWithdrawn,
    RequestedKernel,
    Tombstone,
    Tombstones,
    replayed,
    summary,
)
from sokovan.domain.ids import KernelId
from tests.unit.agent.supervisor_harness import key

KEYS = st.builds(lambda name, attempt: KernelKey(KernelId(name), attempt), st.sampled_from("abc"), st.integers(1, 3))
RECORDS: st.SearchStrategy[JournalRecord] = st.one_of(
    st.builds(IncarnationTaken, st.integers(1, 9)),
    st.builds(KernelRequested, KEYS, st.just({"cpu": 1000}), st.just({}), st.sampled_from(["", "b1"])),
    st.builds(KernelStarted, KEYS),
    st.builds(KernelWithdrawn, KEYS),
    st.builds(KernelEntombed, KEYS, st.integers(1, 9), st.none() | st.integers(0, 255)),
    st.builds(KernelForgotten, KEYS),
)


def test_a_kernel_is_remembered_from_asking_to_forgetting() -> None:
    asked = replayed(JournalState(), [KernelRequested(key(), {"cpu": 500}, boot="b1")])
    assert asked.kernels == {key(): RequestedKernel({"cpu": 500}, {}, "b1")}
    started = replayed(asked, [KernelStarted(key())])
    assert started.kernels[key()].started
    over = replayed(started, [KernelEntombed(key(), 1, 137), KernelForgotten(key())])

    assert over == JournalState(0, {}, Tombstones({key(): Tombstone(1, 137)}))


def test_a_kernel_that_could_not_start_leaves_nothing() -> None:
    assert replayed(JournalState(), [KernelRequested(key(), {}), KernelWithdrawn(key())]) == JournalState()


def test_a_start_of_something_that_was_not_asked_for_is_no_memory() -> None:
    assert replayed(JournalState(), [KernelStarted(key())]) == JournalState()


def test_tombstones_are_kept_for_as_long_as_a_request_could_need_them() -> None:
    memory = replayed(
        JournalState(), [IncarnationTaken(1), KernelEntombed(key("old"), 1), KernelRequested(key("listed"), {})]
    )
    memory = replayed(memory, [KernelEntombed(key("listed"), 1), IncarnationTaken(2)])
    assert set(memory.tombstones) == {key("old"), key("listed")}

    assert set(replayed(memory, [IncarnationTaken(3)]).tombstones) == {key("listed")}


def test_the_number_of_tombstones_of_unlisted_kernels_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_records, "TOMBSTONES_MAX", 3)
    memory = replayed(
        JournalState(), [IncarnationTaken(1), KernelRequested(key("listed"), {}), KernelEntombed(key("listed"), 1)]
    )
    for number in range(1, 9):
        memory = replayed(memory, [KernelEntombed(key("k", number), 1)])
    assert list(memory.tombstones) == [key("listed"), key("k", 7), key("k", 8)]
    forgotten = replayed(memory, [KernelForgotten(key("listed")), KernelEntombed(key("next"), 1)])
    assert list(forgotten.tombstones) == [key("k", 7), key("k", 8), key("next")]


@pytest.mark.slow
def test_a_further_tombstone_does_not_copy_all_others() -> None:
    many = Tombstones({key("k", number): Tombstone(1) for number in range(1, 10_001)})
    for number in range(1, 101):
        more = many.adding(key("next", number), Tombstone(2), listed=())
        assert more._settled is many._settled
        assert (len(more), more.latest(KernelId("next"))) == (10_000 + number, number)
        many = more
    for number in range(1, 1_001):
        many = many.adding(key("last", number), Tombstone(2), listed=())
    assert len(many) <= 10_625


def test_tombstones_are_found_by_their_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_records, "TOMBSTONES_MAX", 2)
    first = Tombstones({key("a", 4): Tombstone(1), key("a", 2): Tombstone(1)})
    assert (first.latest(KernelId("a")), first.latest(KernelId("b"))) == (4, 0)
    more = first.adding(key("b", 1), Tombstone(1), listed=())
    assert (more.latest(KernelId("a")), more.latest(KernelId("b"))) == (2, 1)
    assert more.adding(key("b", 2), Tombstone(1), listed=()).latest(KernelId("a")) == 0
    assert first == {key("a", 4): Tombstone(1), key("a", 2): Tombstone(1)}, "each is a state of its own"


@given(st.lists(RECORDS, max_size=30))
def test_the_summary_says_the_same(records: list[JournalRecord]) -> None:
    memory = replayed(JournalState(), records)

    # A summary speaks of now: tombstones that the present incarnation does not need may go.
    assert replayed(memory, [IncarnationTaken(memory.incarnation)]) == replayed(
        replayed(JournalState(), summary(memory)), [IncarnationTaken(memory.incarnation)]
    )
    assert replayed(JournalState(), summary(memory)) == memory


@given(st.lists(RECORDS, max_size=20), st.integers(0, 20))
def test_it_does_not_matter_how_the_records_are_grouped(records: list[JournalRecord], at: int) -> None:
    assert replayed(replayed(JournalState(), records[:at]), records[at:]) == replayed(JournalState(), records)
