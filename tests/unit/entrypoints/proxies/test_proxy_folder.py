"""The folder of a proxy: one process, one identity, numbers that go on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sokovan.entrypoints.proxies.folder_lock import holder_of
from sokovan.entrypoints.proxies.proxy_folder import (
    FOLDERS_MAX,
    ProxyFolder,
    ProxyFolderInUse,
    has_usage,
    in_free_folder,
    load_table,
)
from sokovan.proxy.accounts.token_counts import TokenCount
from sokovan.wire.serving.serving_codec import encode
from tests.unit.proxy.running_proxy import proxy_with, table_of


def test_identity_and_numbers_outlive_a_restart(tmp_path: Path) -> None:
    first = ProxyFolder(tmp_path / "proxy")
    first.ledger.add(key_id="k", deployment_id="d", revision=1, count=TokenCount(1, 2), failed=False, now_ms=0)
    first.ledger.close()
    first.save_usage()
    first.close()
    second = ProxyFolder(tmp_path / "proxy")

    assert second.identity.proxy_id == first.identity.proxy_id
    assert second.identity.incarnation == first.identity.incarnation + 1
    assert second.ledger.unsent() == first.ledger.unsent()
    assert second.ledger.sequence == 1
    second.close()


def test_a_folder_that_cannot_be_read_is_another_proxy(tmp_path: Path) -> None:
    first = ProxyFolder(tmp_path)
    first.close()
    (tmp_path / "usage.json").write_bytes(b"half a fi")
    second = ProxyFolder(tmp_path)

    assert second.identity.proxy_id != first.identity.proxy_id
    second.close()


def test_one_process_uses_a_folder_and_can_be_found(tmp_path: Path) -> None:
    assert holder_of(tmp_path) is None
    first = ProxyFolder(tmp_path)
    assert holder_of(tmp_path) == os.getpid()
    with pytest.raises(ProxyFolderInUse, match="another proxy uses"):
        ProxyFolder(tmp_path)

    first.close()
    assert holder_of(tmp_path) is None
    ProxyFolder(tmp_path).close()


def test_while_one_process_drains_the_next_has_a_folder_and_an_identity_of_its_own(tmp_path: Path) -> None:
    drains = in_free_folder(tmp_path, ProxyFolder)
    following = in_free_folder(tmp_path, ProxyFolder)

    assert (drains.root, following.root) == (tmp_path, tmp_path / "next-1")
    assert following.identity.proxy_id != drains.identity.proxy_id
    drains.close()
    assert in_free_folder(tmp_path, lambda path: path) == tmp_path
    following.close()


def test_when_all_folders_are_in_use_that_is_said(tmp_path: Path) -> None:
    held = [in_free_folder(tmp_path, ProxyFolder) for _ in range(FOLDERS_MAX)]
    with pytest.raises(ProxyFolderInUse, match="other proxies use"):
        in_free_folder(tmp_path, ProxyFolder)
    for one in held:
        one.close()


async def test_the_table_that_was_saved_last_in_any_folder_is_loaded(tmp_path: Path) -> None:
    said: list[str] = []
    for number, (name, content) in enumerate([
        ("old", encode(table_of(version=3))), ("worker-1", encode(table_of(version=7))), ("torn", b"{"),
    ]):  # fmt: skip
        path = tmp_path / name / "table.json"
        path.parent.mkdir()
        path.write_bytes(content)
        os.utime(path, ns=(number, number))
    async with proxy_with(table_of(version=1)) as proxy:
        load_table(tmp_path, proxy.server, said.append)

        assert proxy.context.table.version == 7
        assert len(said) == 1, "the torn one was tried first"


def test_only_usage_that_was_not_stored_is_left(tmp_path: Path) -> None:
    folder = ProxyFolder(tmp_path)
    assert not has_usage(tmp_path)
    assert not has_usage(tmp_path / "missing")
    folder.ledger.add(key_id="k", deployment_id="d", revision=1, count=TokenCount(1, 2), failed=False, now_ms=0)
    folder.ledger.close()
    folder.save_usage()
    folder.close()

    assert has_usage(tmp_path)
