"""What every ConfigStore promises.

Each check takes `open_store`, which opens another store on the same configuration,
empty before the check. Run every check of CHECKS on a configuration of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sokovan.domain.errors import InvalidInput, InvalidName
from sokovan.ports.config import ConfigConflict, ConfigStore, ConfigTree, ConfigValue, UnreadableConfig

OpenStore = Callable[[], ConfigStore]
Check = Callable[[OpenStore], Awaitable[None]]

# A check that waits longer has failed; an adapter that polls must poll faster for its tests.
LIMIT_S = 20.0

EVERY_KIND: dict[str, ConfigValue] = {
    "flag": True,
    "whole": -(2**63),
    "real": 0.1,
    "whole_real": 2.0,
    "text": 'quotes " and \\ and \n lines and \t and ünï and \x7f',
    "empty": "",
    "list": [1, "two", [3.5, []], {"four": False}],
    "table": {"deep": {"deeper": {"key with spaces": 1, "": 2, "dots.and/slashes": 3}}, "none": {}},
}


async def check_a_configuration_that_was_never_written_is_empty(open_store: OpenStore) -> None:
    """An empty configuration reads as no sections, with a revision to write on."""
    async with _opened(open_store) as store:
        tree = await store.read()
        _equal(dict(tree.values), {}, "a configuration that nobody wrote")
        await store.write({"a": {"x": 1}}, expected=tree.revision)


async def check_what_is_written_is_read_back_by_everybody(open_store: OpenStore) -> None:
    """Every kind of value survives, with its kind."""
    async with _opened(open_store) as writer, _opened(open_store) as reader:
        written = await writer.write({"kinds": EVERY_KIND}, expected=(await writer.read()).revision)
        for tree in (written, await writer.read(), await reader.read()):
            _equal(_with_kinds(tree.values), _with_kinds({"kinds": EVERY_KIND}), "every kind of value")


async def check_the_revision_changes_with_a_change_and_only_then(open_store: OpenStore) -> None:
    """Two reads of one state agree; a write gives the revision that a read then gives."""
    async with _opened(open_store) as store, _opened(open_store) as other:
        first = await store.read()
        _equal((await other.read()).revision, first.revision, "the revision of one state")
        second = await store.write({"a": {"x": 1}}, expected=first.revision)
        _differ(second.revision, first.revision, "the revision after a change")
        _equal((await other.read()).revision, second.revision, "the revision that a write returned")


async def check_a_write_leaves_other_sections_alone(open_store: OpenStore) -> None:
    """Only the sections that are named change."""
    async with _opened(open_store) as store:
        tree = await _given(store, {"a": {"x": 1}, "b": {"y": 2}})
        tree = await store.write({"b": {"z": 3}}, expected=tree.revision)
        _equal(dict(tree.values), {"a": {"x": 1}, "b": {"z": 3}}, "the sections after one was set")


async def check_none_removes_a_section(open_store: OpenStore) -> None:
    """A section that is removed is gone; one that is not there may be removed."""
    async with _opened(open_store) as store:
        tree = await _given(store, {"a": {"x": 1}, "b": {"y": 2}})
        tree = await store.write({"a": None, "never": None}, expected=tree.revision)
        _equal(dict(tree.values), {"b": {"y": 2}}, "the sections after one was removed")
        _equal(dict((await store.read()).values), {"b": {"y": 2}}, "the sections read back")


async def check_one_entry_of_a_section_can_be_set_and_removed(open_store: OpenStore) -> None:
    """`name.entry` touches that entry; a section comes and goes with its entries."""
    async with _opened(open_store) as store:
        tree = await _given(store, {"groups": {"a": {"x": 1}, "b": {"y": 2}}})
        tree = await store.write({"groups.a": {"x": 5}, "groups.gpu.a100": {"z": 3}}, expected=tree.revision)
        _equal(dict(tree.values), {"groups": {"a": {"x": 5}, "b": {"y": 2}, "gpu.a100": {"z": 3}}}, "entries set")
        tree = await store.write({"groups.b": None}, expected=tree.revision)
        _equal(dict(tree.values), {"groups": {"a": {"x": 5}, "gpu.a100": {"z": 3}}}, "an entry removed")
        tree = await store.write({"groups.a": None, "groups.gpu.a100": None, "new.e": 1}, expected=tree.revision)
        _equal(dict(tree.values), {"new": {"e": 1}}, "the last entry removed")
        _equal(dict((await store.read()).values), {"new": {"e": 1}}, "the entries read back")


async def check_a_section_can_be_replaced_after_its_entries_were_set(open_store: OpenStore) -> None:
    """A section that is set holds what it was set to, not what entries said before."""
    async with _opened(open_store) as store:
        tree = await _given(store, {"groups.a": {"x": 1}})
        tree = await store.write({"groups": {"b": {"y": 2}}}, expected=tree.revision)
        _equal(dict((await store.read()).values), {"groups": {"b": {"y": 2}}}, "a section that was replaced")
        tree = await store.write({"groups": {"b": {"y": 2}}, "groups.c": 3}, expected=tree.revision)
        _equal(dict(tree.values), {"groups": {"b": {"y": 2}, "c": 3}}, "a section and its entry set together")


async def check_a_write_on_an_old_revision_is_refused_and_changes_nothing(open_store: OpenStore) -> None:
    """Who read before somebody else wrote must read again."""
    async with _opened(open_store) as store, _opened(open_store) as other:
        old = await store.read()
        await other.write({"a": {"x": 1}}, expected=old.revision)
        await _refused(ConfigConflict, store.write({"a": {"x": 2}, "b": {"y": 1}}, expected=old.revision))
        await _refused(ConfigConflict, store.write({"a": {"x": 2}}, expected="no such revision"))
        _equal(dict((await store.read()).values), {"a": {"x": 1}}, "the configuration after refused writes")


async def check_of_many_writers_at_once_exactly_one_wins(open_store: OpenStore) -> None:
    """Compare-and-set holds between stores that write at the same time."""
    async with _opened(open_store) as first, _opened(open_store) as second:
        for round_number in range(5):
            revision = (await first.read()).revision
            writes = [
                store.write({"winner": {"number": number, "round": round_number}}, expected=revision)
                for number, store in enumerate((first, second, first, second))
            ]
            answers = await asyncio.gather(*writes, return_exceptions=True)
            won = [answer for answer in answers if isinstance(answer, ConfigTree)]
            lost = [answer for answer in answers if isinstance(answer, ConfigConflict)]
            _equal((len(won), len(lost)), (1, 3), f"winners and losers of {answers!r}")
            _equal((await second.read()).values["winner"], won[0].values["winner"], "what the winner wrote")


async def check_a_name_that_is_none_is_refused_and_nothing_is_written(open_store: OpenStore) -> None:
    """All or nothing: one bad name refuses the whole write."""
    async with _opened(open_store) as store:
        revision = (await store.read()).revision
        for name in ("", ".", "a.", ".a", "a b", "a/b", "x" * 200):
            await _refused(InvalidName, store.write({"good": {"x": 1}, name: {"y": 1}}, expected=revision))
        _equal(dict((await store.read()).values), {}, "the configuration after refused writes")


async def check_a_value_that_cannot_be_kept_is_refused_and_nothing_is_written(open_store: OpenStore) -> None:
    """What TOML or JSON cannot hold is refused in every store alike."""
    values: list[Any] = [None, float("nan"), float("inf"), 2**63, b"bytes", "\ud800", {1: 2}]
    async with _opened(open_store) as store:
        revision = (await store.read()).revision
        for value in values:
            await _refused(InvalidInput, store.write({"good": {"x": 1}, "bad": {"y": value}}, expected=revision))
        _equal(dict((await store.read()).values), {}, "the configuration after refused writes")


async def check_a_watch_tells_what_others_and_we_ourselves_write(open_store: OpenStore) -> None:
    """After a read, the first state that a watch tells is the next one."""
    async with _opened(open_store) as store, _opened(open_store) as other:
        tree = await store.read()
        watch = store.watch()
        tree = await other.write({"a": {"x": 1}}, expected=tree.revision)
        _equal(await _next(watch), tree, "the state after somebody else's write")
        tree = await store.write({"a": {"x": 2}}, expected=tree.revision)
        _equal(await _next(watch), tree, "the state after our own write")


async def check_a_watch_tells_the_latest_state_and_skips_what_nobody_saw(open_store: OpenStore) -> None:
    """Whoever was slow gets the present, not the past."""
    async with _opened(open_store) as store, _opened(open_store) as other:
        tree = await store.read()
        watch = store.watch()
        for number in range(3):
            tree = await other.write({"a": {"x": number}}, expected=tree.revision)
        _equal(await _next(watch), tree, "the state after three writes")
        tree = await other.write({"a": None}, expected=tree.revision)
        _equal(await _next(watch), tree, "the state after a section was removed")


async def check_a_change_between_a_read_and_a_watch_is_not_lost(open_store: OpenStore) -> None:
    """New is what the store has not read."""
    async with _opened(open_store) as store, _opened(open_store) as other:
        tree = await store.read()
        tree = await other.write({"a": {"x": 1}}, expected=tree.revision)
        _equal(await _next(store.watch()), tree, "the state that was written before the watch began")


async def check_every_watch_tells_every_change(open_store: OpenStore) -> None:
    """Two watches do not take from each other."""
    async with _opened(open_store) as store, _opened(open_store) as other:
        tree = await store.read()
        watches = [store.watch(), store.watch()]
        tree = await other.write({"a": {"x": 1}}, expected=tree.revision)
        for watch in watches:
            _equal(await _next(watch), tree, "the state that each watch tells")


async def check_closing_ends_a_watch_that_waits(open_store: OpenStore) -> None:
    """A watch of a closed store is over; nobody hangs on it."""
    async with _opened(open_store) as store:
        await store.read()
        watch = store.watch()
        waiting = asyncio.ensure_future(_states(watch))
        await store.close()
        async with asyncio.timeout(LIMIT_S):
            _equal(await waiting, [], "what a watch of a closed store tells")


CHECKS: tuple[Check, ...] = (
    check_a_configuration_that_was_never_written_is_empty,
    check_what_is_written_is_read_back_by_everybody,
    check_the_revision_changes_with_a_change_and_only_then,
    check_a_write_leaves_other_sections_alone,
    check_none_removes_a_section,
    check_one_entry_of_a_section_can_be_set_and_removed,
    check_a_section_can_be_replaced_after_its_entries_were_set,
    check_a_write_on_an_old_revision_is_refused_and_changes_nothing,
    check_of_many_writers_at_once_exactly_one_wins,
    check_a_name_that_is_none_is_refused_and_nothing_is_written,
    check_a_value_that_cannot_be_kept_is_refused_and_nothing_is_written,
    check_a_watch_tells_what_others_and_we_ourselves_write,
    check_a_watch_tells_the_latest_state_and_skips_what_nobody_saw,
    check_a_change_between_a_read_and_a_watch_is_not_lost,
    check_every_watch_tells_every_change,
    check_closing_ends_a_watch_that_waits,
)


@asynccontextmanager
async def _opened(open_store: OpenStore) -> AsyncIterator[ConfigStore]:
    store = open_store()
    try:
        yield store
    finally:
        await store.close()


async def _given(store: ConfigStore, values: Mapping[str, ConfigValue]) -> ConfigTree:
    return await store.write(values, expected=(await store.read()).revision)


async def _next(watch: AsyncIterator[ConfigTree | UnreadableConfig]) -> ConfigTree | UnreadableConfig:
    try:
        async with asyncio.timeout(LIMIT_S):
            return await anext(watch)
    except TimeoutError:
        raise AssertionError(f"the watch told nothing within {LIMIT_S:.0f} s") from None


async def _states(watch: AsyncIterator[ConfigTree | UnreadableConfig]) -> list[object]:
    return [state async for state in watch]


async def _refused(kind: type[Exception], write: Awaitable[ConfigTree]) -> None:
    try:
        tree = await write
    except kind:
        return
    raise AssertionError(f"a write that must be refused with {kind.__name__} gave {tree}")


def _with_kinds(value: object) -> object:
    """The value with the kinds of its parts, because to Python 1 equals True."""
    if isinstance(value, Mapping):
        return {key: _with_kinds(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_kinds(item) for item in value]
    return type(value).__name__, value


def _equal(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: expected {wanted!r}, found {found!r}")


def _differ(found: object, unwanted: object, what: str) -> None:
    if found == unwanted:
        raise AssertionError(f"{what}: is still {found!r}")
