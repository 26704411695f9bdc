"""Loading the configured allocator, and the errors."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from sokovan.adapters.sql.allocation.allocator import RepositoryAllocator
from sokovan.entrypoints.allocators import GROUP, allocator_named
from sokovan.entrypoints.plugins import UnloadablePlugin
from sokovan.scheduling.registry import DuplicatePlugin, UnknownPlugin, UnusablePlugin
from sokovan.testing.stored_cluster import StoredCluster

HERE = "tests.unit.entrypoints.test_allocators"


class Careful(RepositoryAllocator):
    name = "careful"


class Stubborn(RepositoryAllocator):
    name = "stubborn"

    def __init__(self, store: object) -> None:
        del store
        raise RuntimeError("not today")


def offered(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


async def test_the_default_is_built_in() -> None:
    async with StoredCluster.open() as cluster:
        assert type(allocator_named("repository", cluster.store, installed=[])) is RepositoryAllocator
        assert type(allocator_named("repository", cluster.store)) is RepositoryAllocator


@pytest.mark.slow
async def test_an_installed_allocator_is_chosen_by_its_name_and_works_on_the_store() -> None:
    async with StoredCluster.open() as cluster:
        found = allocator_named("careful", cluster.store, installed=[offered("careful", f"{HERE}:Careful")])
        cluster.allocator = found  # type: ignore[assignment]  # it is a subclass, named by its base
        await cluster.agent("a1")
        await cluster.submit("s")
        assert len((await cluster.place("s", "a1")).allocated) == 1


@pytest.mark.parametrize(
    ("name", "points", "error"),
    [
        ("bold", [offered("careful", f"{HERE}:Careful")], UnknownPlugin),
        ("careful", [offered("careful", f"{HERE}:Careful"), offered("careful", f"{HERE}:Stubborn")], DuplicatePlugin),
        ("careful", [offered("careful", "no.such.module:Thing")], UnloadablePlugin),
        ("careful", [offered("careful", "builtins:dict")], UnloadablePlugin),
        ("brave", [offered("brave", f"{HERE}:Careful")], UnloadablePlugin),
        ("stubborn", [offered("stubborn", f"{HERE}:Stubborn")], UnusablePlugin),
    ],
)
async def test_an_allocator_that_cannot_be_had_is_named_in_the_error(
    name: str, points: list[EntryPoint], error: type[Exception]
) -> None:
    async with StoredCluster.open() as cluster:
        with pytest.raises(error, match=name):
            allocator_named(name, cluster.store, installed=points)


async def test_a_broken_package_does_not_disturb_those_who_do_not_name_it() -> None:
    async with StoredCluster.open() as cluster:
        broken = offered("careful", "no.such.module:Thing")
        assert type(allocator_named("repository", cluster.store, installed=[broken])) is RepositoryAllocator
