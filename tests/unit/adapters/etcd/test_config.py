"""Configuration in etcd, beyond the contract, on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sokovan.adapters.etcd.access import EtcdAccess
from sokovan.adapters.etcd.config import EtcdConfig
from sokovan.adapters.etcd.connection import EtcdConnection
from sokovan.adapters.etcd.keys import PREFIX
from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.errors import InvalidName
from sokovan.ports.config import ConfigConflict, ConfigUnavailable, UnreadableConfig


@pytest.fixture
async def store(etcd_url: str) -> AsyncIterator[EtcdConfig]:
    store = EtcdConfig(EtcdAccess((etcd_url,)), clock=SystemClock())
    yield store
    await store.close()


@pytest.fixture
async def by_hand(etcd_url: str) -> AsyncIterator[EtcdConnection]:
    """An external writer that does not use the guard, like etcdctl."""
    link = EtcdConnection(EtcdAccess((etcd_url,)))
    yield link
    await link.close()


async def put(link: EtcdConnection, key: str, value: str) -> None:
    async def question(store: Any) -> Any:
        return await store.put(key, value)

    await link.call(question, doing="write to")


async def keys(link: EtcdConnection) -> dict[str, str]:
    async def question(store: Any) -> Any:
        return await store.get(PREFIX, range_end=PREFIX[:-1] + "0")

    answer = await link.call(question, doing="read")
    return {pair.key.decode(): pair.value.decode() for pair in answer.kvs}


async def test_sections_and_entries_have_documented_keys(store: EtcdConfig, by_hand: EtcdConnection) -> None:
    tree = await store.write({"scheduler": {"short_cycle_ms": 5}}, expected=(await store.read()).revision)
    await store.write({"scaling_groups.gpu": {"scheduler": "drf"}}, expected=tree.revision)
    found = await keys(by_hand)
    assert len(found.pop("/sokovan/config/.guard").split()) == 2
    assert found == {
        "/sokovan/config/scheduler": '{"short_cycle_ms": 5}',
        "/sokovan/config/scaling_groups/gpu": '{"scheduler": "drf"}',
    }


async def test_what_is_put_by_hand_is_read_and_counts_as_a_change(store: EtcdConfig, by_hand: EtcdConnection) -> None:
    tree = await store.read()
    await put(by_hand, "/sokovan/config/scheduler", '{"batch_max": 1}')
    await put(by_hand, "/sokovan/config/scheduler/short_cycle_ms", "7")
    assert (await store.read()).values == {"scheduler": {"batch_max": 1, "short_cycle_ms": 7}}
    with pytest.raises(ConfigConflict):
        await store.write({"a": 1}, expected=tree.revision)


async def test_a_change_by_hand_between_our_read_and_our_write_is_noticed(
    store: EtcdConfig, by_hand: EtcdConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = await store.read()
    before = await store.stored()
    await put(by_hand, "/sokovan/config/b", "1")

    async def late() -> Any:
        return before

    monkeypatch.setattr(store, "stored", late)
    with pytest.raises(ConfigConflict):
        await store.write({"a": 1}, expected=tree.revision)
    assert "/sokovan/config/a" not in await keys(by_hand)


async def test_keys_outside_the_prefix_are_no_changes(store: EtcdConfig, by_hand: EtcdConnection) -> None:
    tree = await store.read()
    await put(by_hand, "/sokovan/configure", "1")
    await put(by_hand, "/other", "1")
    assert await store.read() == tree
    assert (await store.write({"a": 1}, expected=tree.revision)).values == {"a": 1}


async def test_two_prefixes_are_two_configurations(store: EtcdConfig, etcd_url: str) -> None:
    other = EtcdConfig(EtcdAccess((etcd_url,)), clock=SystemClock(), prefix="/elsewhere")
    await store.write({"a": 1}, expected=(await store.read()).revision)
    assert (await other.read()).values == {}
    await other.close()


def test_a_prefix_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidName):
        EtcdConfig(EtcdAccess(("x",)), clock=SystemClock(), prefix="/")


async def test_bad_json_put_by_hand_is_named_and_the_watch_goes_on(store: EtcdConfig, by_hand: EtcdConnection) -> None:
    await store.read()
    watch = store.watch()
    await put(by_hand, "/sokovan/config/a", "{half")
    state = await anext(watch)
    assert isinstance(state, UnreadableConfig)
    assert state.path == "a"
    await put(by_hand, "/sokovan/config/a", "1")
    assert not isinstance(await anext(watch), UnreadableConfig)


async def test_an_answer_that_was_lost_is_found_out_by_asking_again(
    store: EtcdConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = await store.read()
    real = store._transaction
    calls = 0

    async def losing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        answer = await real(*arguments)
        if calls == 1:
            raise TimeoutError
        return answer

    monkeypatch.setattr(store, "_transaction", losing)
    after = await store.write({"a": 1}, expected=tree.revision)
    assert (calls, after.values) == (2, {"a": 1})
    assert await store.read() == after


async def test_an_answer_that_was_lost_is_ours_also_when_others_wrote_since(
    store: EtcdConfig, etcd_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = EtcdConfig(EtcdAccess((etcd_url,)), clock=SystemClock())
    tree = await store.read()
    real = store._transaction
    calls = 0

    async def losing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        answer = await real(*arguments)
        if calls == 1:
            await other.write({"b": 2}, expected=(await other.read()).revision)
            raise TimeoutError
        return answer

    monkeypatch.setattr(store, "_transaction", losing)
    assert (await store.write({"a": 1}, expected=tree.revision)).values == {"a": 1, "b": 2}
    await other.close()


async def test_a_lost_write_is_a_conflict_if_another_writer_succeeded(
    store: EtcdConfig, etcd_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = EtcdConfig(EtcdAccess((etcd_url,)), clock=SystemClock())
    tree = await store.read()
    real = store._transaction
    calls = 0

    async def losing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            await other.write({"b": 2}, expected=(await other.read()).revision)
            raise TimeoutError
        return await real(*arguments)

    monkeypatch.setattr(store, "_transaction", losing)
    with pytest.raises(ConfigConflict):
        await store.write({"a": 1}, expected=tree.revision)
    assert (await store.read()).values == {"b": 2}
    await other.close()


async def test_a_write_without_a_response_reports_an_unknown_outcome(
    etcd_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EtcdConfig(EtcdAccess((etcd_url,), deadline_s=0.5), clock=SystemClock())
    other = EtcdConfig(EtcdAccess((etcd_url,)), clock=SystemClock())
    stored = await other.stored()

    async def known() -> Any:
        return stored

    # Only the change is to take longer than the deadline, which a busy machine may take to read.
    monkeypatch.setattr(store, "stored", known)

    async def losing(*_: Any) -> Any:
        raise TimeoutError

    monkeypatch.setattr(store, "_transaction", losing)
    with pytest.raises(ConfigUnavailable, match="the outcome of the change is unknown"):
        await store.write({"a": 1}, expected=stored.revision)
    await store.close()
    await other.close()


async def test_a_section_that_is_too_large_is_refused_with_the_servers_message(store: EtcdConfig) -> None:
    tree = await store.read()
    with pytest.raises(ConfigUnavailable, match="larger than max") as refused:
        await store.write({"a": "x" * 3_000_000}, expected=tree.revision)
    assert "not known" not in refused.value.message
    assert await store.read() == tree


async def test_a_store_that_was_closed_says_so(store: EtcdConfig) -> None:
    await store.close()
    with pytest.raises(ConfigUnavailable, match="is closed"):
        await store.read()
    assert [state async for state in store.watch()] == []
