"""Each user has a number on an agent, which is recorded before it is used."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sokovan.adapters.process.isolation import accounts as module
from sokovan.adapters.process.isolation.accounts import RECORD, Accounts, hand_over, user_namespaces
from sokovan.ports.runtime import RuntimeFailure
from tests.kernels import needs_root

NUMBERS = range(300_000, 300_003)

pytestmark = needs_root


@pytest.mark.slow
def test_numbers_are_recorded_and_never_given_to_another_user(tmp_path: Path) -> None:
    first = Accounts(tmp_path, NUMBERS)
    given = [first.of(name).number for name in ("ada", "bob", "ada")]
    assert (given[2], {*given}) == (given[0], {300_001, 300_002})
    first.close()
    known = json.loads((tmp_path / RECORD).read_text())
    assert [300_000 + known[name] for name in ("ada", "bob")] == given[:2]
    again = Accounts(tmp_path, NUMBERS)
    assert again.of("bob").number == given[1]
    with pytest.raises(RuntimeFailure, match="in use"):
        again.of("carol")
    with pytest.raises(RuntimeFailure, match="smaller than before"):
        Accounts(tmp_path, range(300_000, 300_002)).of("ada" if known["ada"] == 2 else "bob")
    again.close()


def test_agents_with_equal_ranges_give_a_user_the_same_number(tmp_path: Path) -> None:
    wide = range(300_000, 365_536)
    numbers = []
    for agent, users in (("a1", ("ada", "bob", "carol")), ("a2", ("carol", "bob", "ada"))):
        (tmp_path / agent).mkdir()
        accounts = Accounts(tmp_path / agent, wide)
        numbers.append({user: accounts.of(user).number for user in users})
        accounts.close()
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize("content", ["", '{"ada": 1, "bo', "[]"])
def test_a_record_that_cannot_be_read_gives_no_number_again(tmp_path: Path, content: str) -> None:
    (tmp_path / RECORD).write_text(content)
    with pytest.raises(RuntimeFailure, match="cannot be read"):
        Accounts(tmp_path, NUMBERS).of("ada")
    assert (tmp_path / RECORD).read_text() == content


@pytest.mark.slow
def test_a_machine_that_does_not_allow_the_accounts_is_an_error_at_once() -> None:
    for unused, number in ((-1, 300_001), (300_000, -1)):
        with pytest.raises(RuntimeFailure, match="cannot be created"):
            user_namespaces(unused, number)


@pytest.mark.slow
def test_the_namespaces_of_an_account_are_created_once_and_few_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_MAX", 1)
    accounts = Accounts(tmp_path, NUMBERS)
    ada, again = accounts.of("ada"), accounts.of("ada")
    files = [[os.fstat(handle).st_ino for handle in one.namespaces] for one in (ada, again)]
    assert files[0] == files[1]
    before = len(list(Path("/proc/self/fd").iterdir()))
    accounts.of("bob").close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before, "those of one account were closed for the other's"
    assert [os.fstat(handle).st_ino for handle in ada.namespaces] == files[0], "a plan still names them"
    for one in (ada, again):
        one.close()
    accounts.close()


@pytest.mark.slow
def test_the_record_of_many_users_is_read_whole(tmp_path: Path) -> None:
    known = {f"user-{number:060d}": number + 1 for number in range(20_000)}
    (tmp_path / RECORD).write_text(json.dumps(known))
    assert (tmp_path / RECORD).stat().st_size > 1 << 20
    account = Accounts(tmp_path, range(300_000, 365_000)).of("user-" + "7".zfill(60))
    assert account.number == 300_008
    account.close()


def test_a_plan_names_the_namespaces_of_this_process(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path, NUMBERS)
    plan = accounts.of("ada").plan()
    assert plan["number"] in NUMBERS[1:]
    assert all("user:" in str(Path(path).readlink()) for path in plan["namespaces"])
    assert plan["namespaces"][0].startswith(f"/proc/{os.getpid()}/fd/")
    accounts.close()


def test_the_two_namespaces_are_different_ones() -> None:
    handles = user_namespaces(300_000, 300_001)
    assert len({os.fstat(handle).st_ino for handle in handles}) == 2
    for handle in handles:
        os.close(handle)


def test_a_folder_is_handed_over_whole_and_once_and_no_link_is_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "file").touch()
    (folder / "link").symlink_to(outside)
    hand_over(folder, 300_001)
    assert [path.lstat().st_uid for path in sorted(folder.rglob("*"))] == [300_001] * 3
    assert outside.stat().st_uid == 0
    (folder / "of-root").touch()
    hand_over(folder, 300_001)
    assert (folder / "of-root").stat().st_uid == 0
    hand_over(tmp_path / "missing", 300_001)
