"""New sessions are read a part at a time: whose come first, and what is left."""

from sokovan.domain.ids import SessionId
from sokovan.domain.owners.session_turns import UnreadSessions


def sessions_of(user: str, count: int) -> dict[SessionId, str]:
    return {SessionId(f"{user}{number}"): user for number in range(count)}


def test_who_has_few_is_read_whole_beside_one_with_many() -> None:
    unread = UnreadSessions()
    unread.add(sessions_of("array", 100))
    unread.add(sessions_of("shell", 2))
    assert unread.next_part(5) == ["shell0", "shell1", "array0", "array1", "array2"]


def test_a_part_stays_unread_until_it_is_removed() -> None:
    unread = UnreadSessions()
    unread.add(sessions_of("ada", 3))
    assert unread.next_part(2) == unread.next_part(2) == ["ada0", "ada1"]
    unread.remove([SessionId("ada0"), SessionId("ada1"), SessionId("unknown")])
    assert [SessionId(f"ada{number}") in unread for number in range(3)] == [False, False, True]
    assert (unread.next_part(2), len(unread)) == (["ada2"], 1)
    unread.clear()
    assert (unread.next_part(2), len(unread)) == ([], 0)


def test_who_was_read_whole_may_come_again_and_takes_turns_with_the_others() -> None:
    unread = UnreadSessions()
    unread.add(sessions_of("ada", 1))
    unread.add(sessions_of("bob", 9))
    unread.remove([SessionId("ada0")])
    assert unread.next_part(2) == ["bob0", "bob1"]
    unread.add(sessions_of("ada", 9))
    assert sorted(unread.next_part(4)) == ["ada0", "ada1", "bob0", "bob1"]
