"""A pushed file replaces the configuration in etcd, if it is valid and nothing changed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sokovan.adapters.etcd.access import EtcdAccess
from sokovan.adapters.etcd.config import EtcdConfig
from sokovan.adapters.local.clock import SystemClock
from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.settings.setting_kinds import InvalidSettings
from sokovan.entrypoints.settings.setting_sources import SettingFileMissing, SettingSources, sources_of
from sokovan.entrypoints.settings.shared_settings import (
    NothingShared,
    PushedSettings,
    SettingChange,
    push_settings,
    push_tree,
)
from sokovan.ports.config import ConfigConflict, ConfigTree, ConfigUnavailable, ConfigValue, UnreadableConfig

pytestmark = pytest.mark.server
FIRST = """
[scheduler]
batch_max = 50
[scaling_groups.gpu]
scheduler = "drf"
"""
SECOND = """
[scheduler]
batch_max = 60
[storage]
url = "postgresql://sokovan:geheim@db/sokovan"
"""


class Shared:
    """A shared configuration, and a machine that pushes to it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url.replace("http://", "etcd://")

    def sources(self, *assignments: str) -> SettingSources:
        own = (f"config.url={self.url}", *assignments)
        return sources_of(None, self.folder / "data", environment={}, assignments=own)

    async def push(self, text: str, *assignments: str, dry_run: bool = False) -> PushedSettings:
        file = self.folder / "shared.toml"
        file.write_text(text, encoding="utf-8")
        return await push_settings(file, self.sources(*assignments), dry_run=dry_run)

    async def values(self) -> dict[str, ConfigValue]:
        store = EtcdConfig(EtcdAccess((self.url.removeprefix("etcd://"),)), clock=SystemClock())
        try:
            return dict((await store.read()).values)
        finally:
            await store.close()


@pytest.fixture
def shared(tmp_path: Path, etcd_url: str) -> Shared:
    return Shared(tmp_path, etcd_url)


async def test_a_file_replaces_the_shared_configuration_and_the_difference_is_told(shared: Shared) -> None:
    first = await shared.push(FIRST)
    assert first.changes == (
        SettingChange("scaling_groups.gpu.scheduler", None, '"drf"'),
        SettingChange("scheduler.batch_max", None, "50"),
    )
    assert await shared.values() == {"scheduler": {"batch_max": 50}, "scaling_groups": {"gpu": {"scheduler": "drf"}}}
    second = await shared.push(SECOND)
    assert second.changes == (
        SettingChange("scaling_groups.gpu.scheduler", '"drf"', None),
        SettingChange("scheduler.batch_max", "50", "60"),
        SettingChange("storage.url", None, '"postgresql://sokovan:(hidden)@db/sokovan"'),
    )
    assert second.restart == ("storage.url",)
    assert second.revision != first.revision
    assert (await shared.values()).keys() == {"scheduler", "storage"}
    again = await shared.push(SECOND)
    assert (again.changes, again.revision) == ((), second.revision)


async def test_a_dry_run_writes_nothing(shared: Shared) -> None:
    before = await shared.push(FIRST)
    shown = await shared.push(SECOND, dry_run=True)
    assert (len(shown.changes), shown.revision) == (3, before.revision)
    assert (await shared.values())["scheduler"] == {"batch_max": 50}


@pytest.mark.parametrize(
    ("text", "problem", "own"),
    [
        ("[scheduler]\nbatch_max = 0\n", "batch_max: 0 must be from", ()),
        ("[scheduler]\nbatchmax = 5\n", "did you mean batch_max", ()),
        ("[scaling_groups.a]\nscheduler = 'no-such'\n", "there is no sequencer", ()),
        ("[config]\nurl = 'etcd://other:2379'\n", "set it on each machine", ()),
        # Valid by itself, but not with what this machine sets.
        ("[orchestrator]\nagent_suspect_s = 40\n", "agent_lost_s", ("orchestrator.agent_lost_s=30",)),
    ],
)
async def test_an_invalid_file_is_refused_and_nothing_is_written(
    shared: Shared, text: str, problem: str, own: tuple[str, ...]
) -> None:
    await shared.push(FIRST)
    with pytest.raises(InvalidSettings, match=problem):
        await shared.push(text, *own)
    assert (await shared.values())["scheduler"] == {"batch_max": 50}


async def test_a_file_that_is_missing_empty_or_no_toml_is_refused(shared: Shared) -> None:
    await shared.push(FIRST)
    with pytest.raises(SettingFileMissing):
        await push_settings(shared.folder / "none.toml", shared.sources())
    with pytest.raises(InvalidInput, match="is empty"):
        await shared.push("\n")
    with pytest.raises(UnreadableConfig):
        await shared.push("[scheduler\n")
    assert (await shared.values())["scheduler"] == {"batch_max": 50}
    assert len((await shared.push("# nothing is shared\n")).changes) == 2
    assert await shared.values() == {}


async def test_a_push_to_a_file_or_to_no_server_is_refused(shared: Shared) -> None:
    with pytest.raises(NothingShared):
        await shared.push(FIRST, "config.url=file:")
    with pytest.raises(ConfigUnavailable):
        await shared.push(FIRST, "config.url=etcd://127.0.0.1:1")


class Late(EtcdConfig):
    """A store to which another writer comes between the comparison and the write."""

    async def write(self, changes: Mapping[str, ConfigValue | None], *, expected: str) -> ConfigTree:
        """Let the other one write first."""
        await super().write({"log": {"files_kept": 7}}, expected=expected)
        return await super().write(changes, expected=expected)


async def test_a_configuration_that_changed_since_it_was_compared_is_left_as_it_is(shared: Shared) -> None:
    late = Late(EtcdAccess((shared.url.removeprefix("etcd://"),)), clock=SystemClock())
    with pytest.raises(ConfigConflict):
        await push_tree(late, ConfigTree({"scheduler": {"batch_max": 50}}, ""))
    await late.close()
    assert await shared.values() == {"log": {"files_kept": 7}}
