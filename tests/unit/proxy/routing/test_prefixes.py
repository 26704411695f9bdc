"""Prompts are compared block by block, from their begin."""

from __future__ import annotations

from sokovan.proxy.routing.prefixes import BLOCK_CHARACTERS, BLOCKS_MAX, REMEMBERED_MAX, PromptPrefixes, prefix_chain


def prompt(*letters: str) -> bytes:
    return b"".join(letter.encode() * BLOCK_CHARACTERS for letter in letters)


def test_only_whole_blocks_count() -> None:
    assert prefix_chain(b"x" * (BLOCK_CHARACTERS - 1)) == ()
    assert len(prefix_chain(b"x" * BLOCK_CHARACTERS)) == 1
    assert len(prefix_chain(b"x" * (2 * BLOCK_CHARACTERS + 5))) == 2


def test_a_chain_is_bounded() -> None:
    assert len(prefix_chain(b"x" * BLOCK_CHARACTERS * (BLOCKS_MAX + 10))) == BLOCKS_MAX


def test_equal_blocks_after_another_begin_are_not_equal() -> None:
    assert prefix_chain(prompt("a", "c"))[1] != prefix_chain(prompt("b", "c"))[1]


def test_the_common_begin_of_two_prompts_is_matched() -> None:
    cache = PromptPrefixes()
    cache.remember(prefix_chain(prompt("a", "b", "c")))

    assert cache.matched(prefix_chain(prompt("a", "b", "d", "c"))) == 2
    assert cache.matched(prefix_chain(prompt("b", "a"))) == 0


def test_the_least_recent_prompts_are_forgotten() -> None:
    cache = PromptPrefixes()
    first = prefix_chain(prompt("a", "b"))
    cache.remember(first)
    for number in range(REMEMBERED_MAX - 1):
        cache.remember((number,))

    assert cache.matched(first) == 1, "the begin of a chain is forgotten last"
