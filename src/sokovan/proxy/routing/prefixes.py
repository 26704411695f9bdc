"""Prompt prefixes that endpoints have seen, as chains of block hashes.

An engine keeps the key-value cache of recent prompts; a request whose prompt begins like
one of them is answered faster there. Collisions cost speed, never correctness.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

BLOCK_CHARACTERS = 512
# 32 KiB of a prompt; longer ones are equal as far as it matters.
BLOCKS_MAX = 64
# Blocks that are remembered per endpoint.
REMEMBERED_MAX = 4_096


def prefix_chain(prompt: bytes) -> tuple[int, ...]:
    """A hash for each whole block, of the prompt up to its end."""
    chain: list[int] = []
    value = 0
    for at in range(0, min(len(prompt), BLOCKS_MAX * BLOCK_CHARACTERS) - BLOCK_CHARACTERS + 1, BLOCK_CHARACTERS):
        value = crc32(prompt[at : at + BLOCK_CHARACTERS], value)
        chain.append(value)
    return tuple(chain)


class PromptPrefixes:
    """The blocks that were sent to one endpoint last; the least recent are forgotten."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: dict[int, None] = {}

    def matched(self, chain: Sequence[int]) -> int:
        """How many blocks of the chain, from its begin, the endpoint has seen."""
        blocks = self._blocks
        for number, block in enumerate(chain):
            if block not in blocks:
                return number
        return len(chain)

    def remember(self, chain: Sequence[int]) -> None:
        """Note that the endpoint gets a prompt with this chain."""
        blocks = self._blocks
        # From the end, so that the begin of a chain is forgotten last.
        for block in reversed(chain):
            blocks.pop(block, None)
            blocks[block] = None
        while len(blocks) > REMEMBERED_MAX:
            del blocks[next(iter(blocks))]
