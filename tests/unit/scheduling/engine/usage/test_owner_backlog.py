"""OwnerBacklogs: waiting sessions per owner, in scheduling order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.slot_notation import parse_slots
from sokovan.domain.slots import NO_SLOTS, ResourceSlot
from sokovan.scheduling.engine.usage.owner_backlog import OwnerBacklog, OwnerBacklogs, PrefixSums
from sokovan.scheduling.snapshot import SessionWorkload
from tests.unit.scheduling.engine.builders import gang, kernel, owner, session, snapshot


def ahead(backlog: OwnerBacklog, session: SessionWorkload) -> tuple[int, ResourceSlot]:
    return backlog.count_ahead(session), backlog.slots_ahead(session)


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 8, 13])
def test_prefix_sums_are_those_of_the_rows_that_are_left(rows: int) -> None:
    table = np.arange(rows * 2, dtype=np.int64).reshape(rows, 2)
    sums = PrefixSums(table.copy())
    for gone in range(0, rows, 3):
        sums.remove(gone)
        table[gone] = 0
    assert [sums.first(count) for count in range(rows + 1)] == [
        table[:count].sum(axis=0).tolist() for count in range(rows + 1)
    ]


def test_a_session_of_higher_priority_is_ahead_of_older_ones() -> None:
    given = snapshot(
        [],
        gang("old", 1, "cpu=1", owner=owner("alice")),
        gang("urgent", 1, "cpu=3", owner=owner("alice"), priority=9),
    )
    backlog = OwnerBacklogs(given).of(Scope.KEYPAIR, "alice")
    old, urgent = given.sessions
    assert ahead(backlog, urgent) == (0, NO_SLOTS)
    assert ahead(backlog, old) == (1, parse_slots("cpu=3"))


@pytest.mark.parametrize(("scope", "count"), [("keypair", 0), ("user", 1), ("group", 2), ("domain", 3)])
def test_every_scope_has_a_backlog_of_its_own(scope: str, count: int) -> None:
    me = Owner(user="alice", group="lab", domain="faculty", access_key=AccessKey("key-1"))
    others = (
        replace(me, access_key=AccessKey("key-2")),
        replace(me, access_key=AccessKey("key-3"), user="bob"),
        replace(me, access_key=AccessKey("key-4"), user="carol", group="office"),
    )
    given = snapshot([], *(gang(f"s{i}", 1, "cpu=1", owner=one) for i, one in enumerate((*others, me))))
    backlogs = OwnerBacklogs(given)
    backlog = backlogs.of(Scope(scope), me.name_in(Scope(scope)))
    assert backlog.count_ahead(given.sessions[-1]) == count
    for waiting in given.sessions:
        backlogs.remove(waiting)
    assert ahead(backlog, given.sessions[-1]) == (0, NO_SLOTS)


def test_a_backlog_counts_the_older_sessions_of_the_keypair_and_their_requests() -> None:
    given = snapshot(
        [],
        gang("first", 2, "cpu=1", owner=owner("alice")),
        gang("stranger", 1, "cpu=64", owner=owner("bob")),
        gang("second", 1, "cpu=3", owner=owner("alice")),
        gang("third", 1, "cpu=5", owner=owner("alice")),
    )
    backlog = OwnerBacklogs(given).of(Scope.KEYPAIR, "alice")
    first, _, second, third = given.sessions
    assert ahead(backlog, first) == (0, NO_SLOTS)
    assert ahead(backlog, second) == (1, parse_slots("cpu=2"))
    assert ahead(backlog, third) == (2, parse_slots("cpu=5"))


def test_a_session_that_runs_in_part_is_not_in_the_backlog() -> None:
    given = snapshot(
        [],
        session("grows", kernel("g0", "cpu=1", at="a"), kernel("g1", "cpu=1"), owner=owner("alice")),
        gang("waits", 1, "cpu=3", owner=owner("alice")),
    )
    assert ahead(OwnerBacklogs(given).of(Scope.KEYPAIR, "alice"), given.sessions[1]) == (0, NO_SLOTS)


def test_what_waits_in_other_scaling_groups_counts_where_it_stands_in_the_order() -> None:
    first, second = (gang(name, 1, "cpu=3", owner=owner("alice")) for name in ("first", "second"))
    older = gang("older", 1, "cpu=7", owner=owner("alice"), submitted=-1)
    newer = gang("newer", 1, "cpu=9", owner=owner("alice"), submitted=99)
    given = snapshot([], first, second, pending_elsewhere=(newer, older))
    backlog = OwnerBacklogs(given).of(Scope.KEYPAIR, "alice")
    assert ahead(backlog, given.sessions[0]) == (1, parse_slots("cpu=7"))
    assert backlog.count_at_start == 4
    assert backlog.slots_at_start == parse_slots("cpu=22")


def test_a_session_that_leaves_lets_those_behind_it_move_up_and_leaves_only_once() -> None:
    given = snapshot([], *(gang(f"s{index}", 1, f"cpu={index + 1}", owner=owner("alice")) for index in range(3)))
    backlogs, (first, second, third) = OwnerBacklogs(given), given.sessions
    backlog = backlogs.of(Scope.KEYPAIR, "alice")
    backlogs.remove(second)
    backlogs.remove(second)
    assert ahead(backlog, third) == (1, parse_slots("cpu=1"))
    assert ahead(backlog, first) == (0, NO_SLOTS)
    backlogs.remove(first)
    assert ahead(backlog, third) == (0, NO_SLOTS)


def test_removing_an_unknown_session_from_a_backlog_changes_nothing() -> None:
    given = snapshot([], gang("s", 1, "cpu=1", owner=owner("alice")))
    backlogs = OwnerBacklogs(given)
    backlogs.of(Scope.KEYPAIR, "bob")
    backlogs.remove(gang("stranger", 1, "cpu=1", owner=owner("bob")))
    assert ahead(backlogs.of(Scope.KEYPAIR, "alice"), given.sessions[0]) == (0, NO_SLOTS)


def test_a_session_that_is_removed_before_the_backlog_is_built_is_not_in_it() -> None:
    given = snapshot([], *(gang(f"s{index}", 1, "cpu=1", owner=owner("alice")) for index in range(2)))
    backlogs = OwnerBacklogs(given)
    backlogs.remove(given.sessions[0])
    assert ahead(backlogs.of(Scope.KEYPAIR, "alice"), given.sessions[1]) == (0, NO_SLOTS)
