"""Contract of `ports.config.ConfigStore`.

Each check takes `open_store`, which opens another store on the same configuration,
empty before the check. Run each check of CHECKS on its own configuration.
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

# Timeout of a check; an adapter that polls must poll faster in its tests.
LIMIT_S = 60.0

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
    """It reads as no sections, with a revision to write on."""
    async with _opened(open_store) as store:
        tree = await store.read()
        _equal(dict(tree.values), {}, "a configuration that was never written")
        await store.write({"a": {"x": 1}}, expected=tree.revision)


async def check_what_is_written_is_read_back_by_all_stores(open_store: OpenStore) -> None:
    """All types of values are preserved."""
    async with _opened(open_store) as writer, _opened(open_store) as reader:
        written = await writer.write({"kinds": EVERY_KIND}, expected=(await writer.read()).revision)
        for tree in (written, await writer.read(), await reader.read()):
            _equal(_with_kinds(tree.values), _with_kinds({"kinds": EVERY_KIND}), "every kind of value")


async def check_the_revision_changes_with_a_change_and_only_then(open_store: OpenStore) -> None:
    """Two reads of one state agree; a write returns the revision of the next read."""
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
    """A missing section may be removed too."""
    async with _opened(open_store) as store:
        tree = await _given(store, {"a": {"x": 1}, "b": {"y": 2}})
        tree = await store.write({"a": None, "never": None}, expected=tree.revision)
        _equal(dict(tree.values), {"b": {"y": 2}}, "the sections after one was removed")
        _equal(dict((await store.read()).values), {"b": {"y": 2}}, "the sections read back")


async def check_one_entry_of_a_section_can_be_set_and_removed(open_store: OpenStore) -> None:
    """`name.entry` changes that entry; a section exists while it has entries."""
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
    """Earlier entries do not remain."""
    async with _opened(open_store) as store:
        tree = await _given(store, {"groups.a": {"x": 1}})
        tree = await store.write({"groups": {"b": {"y": 2}}}, expected=tree.revision)
        _equal(dict((await store.read()).values), {"groups": {"b": {"y": 2}}}, "a section that was replaced")
        tree = await store.write({"groups": {"b": {"y": 2}}, "groups.c": 3}, expected=tree.revision)
        _equal(dict(tree.values), {"groups": {"b": {"y": 2}, "c": 3}}, "a section and its entry set together")


async def check_a_write_on_an_old_revision_is_refused_and_changes_nothing(open_store: OpenStore) -> None:
    """The writer must read again."""
    async with _opened(open_store) as store, _opened(open_store) as other:
        old = await store.read()
        await other.write({"a": {"x": 1}}, expected=old.revision)
        await _refused(ConfigConflict, store.write({"a": {"x": 2}, "b": {"y": 1}}, expected=old.revision))
        await _refused(ConfigConflict, store.write({"a": {"x": 2}}, expected="no such revision"))
        _equal(dict((await store.read()).values), {"a": {"x": 1}}, "the configuration after refused writes")


async def check_of_concurrent_writers_exactly_one_succeeds(open_store: OpenStore) -> None:
    """Compare-and-set holds across stores."""
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


async def check_an_invalid_name_is_refused_and_nothing_is_written(open_store: OpenStore) -> None:
    """One invalid name refuses the whole write."""
    async with _opened(open_store) as store:
        revision = (await store.read()).revision
        for name in ("", ".", "a.", ".a", "a b", "a/b", "x" * 200):
            await _refused(InvalidName, store.write({"good": {"x": 1}, name: {"y": 1}}, expected=revision))
        _equal(dict((await store.read()).values), {}, "the configuration after refused writes")


async def check_an_unsupported_value_is_refused_and_nothing_is_written(open_store: OpenStore) -> None:
    """Values that TOML or JSON cannot represent are refused by every store."""
    values: list[Any] = [None, float("nan"), float("inf"), 2**63, b"bytes", "\ud800", {1: 2}]
    async with _opened(open_store) as store:
        revision = (await store.read()).revision
        for value in values:
            await _refused(InvalidInput, store.write({"good": {"x": 1}, "bad": {"y": value}}, expected=revision))
        _equal(dict((await store.read()).values), {}, "the configuration after refused writes")


async def check_a_watch_returns_writes_of_all_stores(open_store: OpenStore) -> None:
    """After a read, the first state of a watch is the next one."""
    async with _opened(open_store) as store, _opened(open_store) as other:
        tree = await store.read()
        watch = store.watch()
        tree = await other.write({"a": {"x": 1}}, expected=tree.revision)
        _equal(await _next(watch), tree, "the state after another store's write")
        tree = await store.write({"a": {"x": 2}}, expected=tree.revision)
        _equal(await _next(watch), tree, "the state after our own write")


async def check_a_watch_returns_the_latest_state_and_skips_earlier_ones(open_store: OpenStore) -> None:
    """A slow reader gets the current state."""
    async with _opened(open_store) as store, _opened(open_store) as other:
        tree = await store.read()
        watch = store.watch()
        for number in range(3):
            tree = await other.write({"a": {"x": number}}, expected=tree.revision)
        _equal(await _next(watch), tree, "the state after three writes")
        tree = await other.write({"a": None}, expected=tree.revision)
        _equal(await _next(watch), tree, "the state after a section was removed")


async def check_a_change_between_a_read_and_a_watch_is_not_lost(open_store: OpenStore) -> None:
    """A state is new if the store has not read it."""
    async with _opened(open_store) as store, _opened(open_store) as other:
        tree = await store.read()
        tree = await other.write({"a": {"x": 1}}, expected=tree.revision)
        _equal(await _next(store.watch()), tree, "the state that was written before the watch began")


async def check_every_watch_returns_every_change(open_store: OpenStore) -> None:
    """Watches are independent."""
    async with _opened(open_store) as store, _opened(open_store) as other:
        tree = await store.read()
        watches = [store.watch(), store.watch()]
        tree = await other.write({"a": {"x": 1}}, expected=tree.revision)
        for watch in watches:
            _equal(await _next(watch), tree, "the state that each watch returns")


async def check_closing_ends_a_watch_that_waits(open_store: OpenStore) -> None:
    """A watch of a closed store ends and does not hang."""
    async with _opened(open_store) as store:
        await store.read()
        watch = store.watch()
        waiting = asyncio.ensure_future(_states(watch))
        await store.close()
        async with asyncio.timeout(LIMIT_S):
            _equal(await waiting, [], "the states of a watch of a closed store")


CHECKS: tuple[Check, ...] = (
    check_a_configuration_that_was_never_written_is_empty,
    check_what_is_written_is_read_back_by_all_stores,
    check_the_revision_changes_with_a_change_and_only_then,
    check_a_write_leaves_other_sections_alone,
    check_none_removes_a_section,
    check_one_entry_of_a_section_can_be_set_and_removed,
    check_a_section_can_be_replaced_after_its_entries_were_set,
    check_a_write_on_an_old_revision_is_refused_and_changes_nothing,
    check_of_concurrent_writers_exactly_one_succeeds,
    check_an_invalid_name_is_refused_and_nothing_is_written,
    check_an_unsupported_value_is_refused_and_nothing_is_written,
    check_a_watch_returns_writes_of_all_stores,
    check_a_watch_returns_the_latest_state_and_skips_earlier_ones,
    check_a_change_between_a_read_and_a_watch_is_not_lost,
    check_every_watch_returns_every_change,
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
        raise AssertionError(f"the watch returned nothing within {LIMIT_S:.0f} s") from None


async def _states(watch: AsyncIterator[ConfigTree | UnreadableConfig]) -> list[object]:
    return [state async for state in watch]


async def _refused(kind: type[Exception], write: Awaitable[ConfigTree]) -> None:
    try:
        tree = await write
    except kind:
        return
    raise AssertionError(f"a write that must be refused with {kind.__name__} gave {tree}")


def _with_kinds(value: object) -> object:
    """The value with the types of its parts, because in Python 1 equals True."""
    if isinstance(value, Mapping):
        return {key: _with_kinds(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_kinds(item) for item in value]
    return type(value).__name__, value


def _equal(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


def _differ(found: object, unwanted: object, what: str) -> None:
    if found == unwanted:
        raise AssertionError(f"{what}: is still {found!r}")
