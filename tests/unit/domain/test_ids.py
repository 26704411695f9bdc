"""Names and ids, each of its own type."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import InvalidName
from sokovan.domain.ids import checked_name, is_name


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "7",
        "gpu-01.rack3.example.com",
        "docker.io/library/python:3.12",
        "alice@example.com",
        "a+b",
        "A_b",
        "x" * 128,
    ],
)
def test_hosts_images_and_users_have_names(name: str) -> None:
    assert is_name(name)
    assert checked_name(name, what="thing") == name


@pytest.mark.parametrize("name", ["", "x" * 129, " a", "a b", "-a", "/a", "a\n", "a\x00", "é", "<root>", "a;b", "a%2f"])
def test_what_does_not_belong_in_a_path_or_a_log_names_nothing(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(InvalidName) as refusal:
        checked_name(name, what="thing")
    assert (refusal.value.what, refusal.value.name) == ("thing", name)


@pytest.mark.parametrize("thing", [None, 7, b"a", ["a"], True])
def test_only_a_text_is_a_name(thing: object) -> None:
    assert not is_name(thing)
    with pytest.raises(InvalidName, match="is not a name for a queue"):
        checked_name(thing, what="queue")
