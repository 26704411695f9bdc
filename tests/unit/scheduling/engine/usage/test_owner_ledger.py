"""OwnerLedger: usage per owner during a cycle."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.policy import Scope
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.slot_notation import parse_slots
from sokovan.scheduling.engine.usage.owner_ledger import OwnerLedger
from tests.unit.scheduling.engine.builders import kernel, limited, owner, session, snapshot, using

ALICE = Owner(user="alice", group="lab", domain="faculty", access_key=AccessKey("key-1"))
ALICE_TOO = Owner(user="alice", group="other", domain="faculty", access_key=AccessKey("key-2"))
CPU = parse_slots("cpu=2")


def test_a_session_counts_against_its_keypair_user_group_and_domain() -> None:
    accounts = OwnerLedger(snapshot([])).accounts(ALICE)
    assert [(account.scope, account.name) for account in accounts] == [
        (Scope.KEYPAIR, "key-1"),
        (Scope.USER, "alice"),
        (Scope.GROUP, "lab"),
        (Scope.DOMAIN, "faculty"),
    ]


def test_an_owner_that_is_not_listed_uses_nothing_and_has_no_limits() -> None:
    account = OwnerLedger(snapshot([])).account(Scope.USER, "unknown")
    assert (account.used, account.sessions, account.policy) == ({}, 0, None)
    assert account.excess(parse_slots("cpu=1000")) == []


def test_accounts_begin_with_what_the_snapshot_says() -> None:
    ledger = OwnerLedger(snapshot([], usage=using("alice", "cpu=3", sessions=2)))
    account = ledger.accounts(owner("alice"))[0]
    assert (account.used, account.sessions) == ({"cpu": 3000}, 2)


def test_what_is_charged_is_seen_by_the_next_check() -> None:
    ledger = OwnerLedger(snapshot([], limits=limited("alice", slots_max="cpu=5")))
    account = ledger.accounts(owner("alice"))[0]
    assert account.excess(parse_slots("cpu=3 mem=1Gi")) == []
    ledger.entry(owner("alice")).charge([(CPU, 2)], sessions=1)
    assert account.excess(parse_slots("cpu=3 mem=1Gi")) == [("cpu", 3000, 4000, 5000)]
    assert account.sessions == 1


def test_only_limited_slots_that_are_requested_can_be_exceeded() -> None:
    ledger = OwnerLedger(snapshot([], usage=using("alice", "cpu=9"), limits=limited("alice", slots_max="cpu=5")))
    account = ledger.accounts(owner("alice"))[0]
    assert account.excess(parse_slots("mem=1Gi")) == []
    assert account.excess(parse_slots("cpu=1")) == [("cpu", 1000, 9000, 5000)]


def test_owners_that_share_a_scope_share_the_account() -> None:
    ledger = OwnerLedger(snapshot([]))
    ledger.entry(ALICE).charge([(CPU, 1)], sessions=1)
    ledger.entry(ALICE_TOO).charge([(CPU, 1)], sessions=1)
    used = {account.scope: account.used.get("cpu", 0) for account in ledger.accounts(ALICE)}
    assert used == {Scope.KEYPAIR: 2000, Scope.USER: 4000, Scope.GROUP: 2000, Scope.DOMAIN: 4000}


def test_an_owner_has_one_entry_however_often_it_is_looked_up() -> None:
    ledger = OwnerLedger(snapshot([]))
    page = ledger.entry(ALICE)
    assert ledger.entry(ALICE_TOO) is not page
    assert ledger.entry(Owner("alice", "lab", "faculty", AccessKey("key-1"))) is page


@pytest.mark.parametrize(
    ("watch_all", "watch_users", "watched"),
    [
        (True, True, ["keypair", "user", "group", "domain"]),
        (False, True, ["keypair"]),
        (False, False, ["keypair"]),
    ],
)
def test_accounts_that_no_rule_reads_are_not_updated(watch_all: bool, watch_users: bool, watched: list[str]) -> None:
    given = snapshot([], limits=limited("alice", sessions_max=3))
    ledger = OwnerLedger(given, watch_all=watch_all, watch_users=watch_users)
    ledger.entry(owner("alice")).charge([(CPU, 1)], sessions=1)
    counted = [account for account in ledger.accounts(owner("alice")) if account.sessions]
    assert [account.scope.value for account in counted] == watched
    # Of an account with limits only the slots that are limited are counted, here none.
    assert [account.scope.value for account in counted if account.used] == (watched if watch_all else [])
    assert ledger.account_here("alice").sessions == int(watch_users)


def test_the_usage_of_a_user_here_is_that_of_the_kernels_here() -> None:
    kernels = (kernel("k1", "cpu=1", at="a"), kernel("k2", "cpu=4", at="a", releasing=True), kernel("k3", "cpu=8"))
    here = session("s", *kernels, owner=owner("alice"))
    given = snapshot([], here, usage=using("alice", "cpu=64 cuda.device=8"))
    ledger = OwnerLedger(given)
    assert ledger.account_here("alice").used == {"cpu": 1000}
    ledger.entry(owner("alice")).charge([(CPU, 2)], sessions=1)
    assert ledger.account_here("alice").used == {"cpu": 5000}
    assert ledger.account_here("bob").used == {}
