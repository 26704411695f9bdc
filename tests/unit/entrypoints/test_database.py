"""Opening and upgrading the database that a user names."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.sql.connections.address import UnknownDatabase
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.migration import SchemaMismatch
from sokovan.domain.errors import StoreUnavailable
from sokovan.entrypoints import database as module
from sokovan.entrypoints.database import (
    NotADatabase,
    StoreMissing,
    checked,
    opened,
    shown,
    store_address,
    upgraded,
)
from tests.unit.entrypoints.little_store import little_store, names_in, spoil, take_back

# A port on which nothing listens.
AWAY = "postgresql://user:geheim@127.0.0.1:1/sokovan"


@pytest.mark.parametrize(
    ("given", "environment", "address"),
    [
        ("sqlite:///given.db", {"SOKOVAN_STORE": "sqlite:///named.db"}, "sqlite:///given.db"),
        (None, {"SOKOVAN_STORE": "sqlite:///named.db", "HOME": "/home/a"}, "sqlite:///named.db"),
        (None, {"SOKOVAN_STORE": "", "HOME": "/home/a"}, "sqlite:////home/a/.local/share/sokovan/state.db"),
        (None, {"XDG_DATA_HOME": "/data", "HOME": "/home/a"}, "sqlite:////data/sokovan/state.db"),
        (None, {"XDG_DATA_HOME": "data", "HOME": "/home/a"}, "sqlite:////home/a/.local/share/sokovan/state.db"),
    ],
)
def test_what_was_given_goes_before_the_environment_and_that_before_the_usual_file(
    given: str | None, environment: dict[str, str], address: str
) -> None:
    assert store_address(given, environment) == address


def test_the_store_of_the_server_is_that_of_its_settings(tmp_path: Path) -> None:
    environment = {"XDG_DATA_HOME": str(tmp_path)}
    (tmp_path / "sokovan").mkdir()
    (tmp_path / "sokovan" / "sokovan.toml").write_text(f'[storage]\nurl = "{AWAY}"\n', encoding="utf-8")
    assert store_address(None, environment) == AWAY
    assert store_address(None, {**environment, "SOKOVAN_STORAGE__URL": "sqlite:///x.db"}) == "sqlite:///x.db"
    assert store_address(None, {**environment, "SOKOVAN_STORAGE__URL": "sqlite:"}).startswith(
        "sqlite:///" + str(tmp_path)
    )


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for command in (checked, lambda address: upgraded(address, report=print)):
        with pytest.raises(StoreMissing, match=r"there is no file .*/none.db") as refused:
            command(f"sqlite:///{tmp_path}/none.db")
        assert "nothing was created" in refused.value.hint
    assert names_in(tmp_path) == set()


def test_a_file_of_text_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello, this is no database at all", encoding="utf-8")
    with pytest.raises(NotADatabase, match=r"notes.txt is not a SQLite database"):
        checked(f"sqlite:///{tmp_path}/notes.txt")


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(NotADatabase, match="is a folder"):
        checked(f"sqlite:///{tmp_path}")


def test_a_path_through_a_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="Not a directory"):
        checked(f"sqlite:///{tmp_path}/file/state.db")


def test_a_damaged_database_is_reported_in_one_line(tmp_path: Path) -> None:
    path = little_store(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    with pytest.raises(StoreUnavailable, match="cannot be read: database disk image is malformed") as refused:
        checked(f"sqlite:///{path}")
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    "address", ["sqlite://", "sqlite:///:memory:", "sqlite:///a.db?mode=rw", "sqlite:///file:a.db"]
)
def test_only_a_plain_file_can_be_opened(address: str) -> None:
    with pytest.raises(UnknownDatabase, match="a file or a server"):
        checked(address)


@pytest.mark.parametrize(
    "address", ["mysql://u:geheim@h/d", "u:geheim@h/d", "postgresql://u:geheim@h:port/d", "geheim-less", ""]
)
def test_an_address_of_nothing_we_know_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(UnknownDatabase) as refused:
        checked(address)
    assert "geheim@" not in str(refused.value)
    assert ":geheim" not in str(refused.value)


def test_options_that_the_driver_does_not_know_are_refused_without_being_shown() -> None:
    with pytest.raises(UnknownDatabase, match="sslmode is the only one") as refused:
        checked("postgresql://h/d?secret=geheim")
    assert "geheim" not in str(refused.value)


def test_an_unavailable_server_is_reported_without_its_password() -> None:
    with pytest.raises(StoreUnavailable, match=r"cannot reach postgresql://user:\*\*\*@127.0.0.1:1/sokovan") as refused:
        checked(AWAY)
    assert "geheim" not in str(refused.value)


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'asyncpg'", name="asyncpg")

    monkeypatch.setattr(module, "Database", missing)
    with pytest.raises(StoreUnavailable, match="asyncpg is not installed") as refused:
        checked(AWAY)
    assert "sokovan[postgres]" in refused.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("name", ["with blanks.db", "per%cent.db", "que?stion.db", "sh#arp.db", "é.db"])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    shutil.copy(little_store(tmp_path), tmp_path / name)
    written = name.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    assert checked(f"sqlite:///{tmp_path}/{written}").current


@pytest.mark.slow
def test_what_is_opened_for_reading_cannot_be_written(tmp_path: Path) -> None:
    path = little_store(tmp_path)

    async def write() -> None:
        async with opened(f"sqlite:///{path}", read_only=True) as database, database.reading() as connection:
            await connection.execute(sa.text("DELETE FROM sessions"))

    with pytest.raises(StoreUnavailable, match="readonly database"):
        asyncio.run(write())


@pytest.mark.slow
def test_reading_a_copy_does_not_change_its_journal(tmp_path: Path) -> None:
    source, copy = little_store(tmp_path), tmp_path / "copy.db"
    with closing(sqlite3.connect(source)) as connection:
        connection.execute(f"VACUUM INTO '{copy}'")
    before = copy.read_bytes()
    assert checked(f"sqlite:///{copy}").current
    assert copy.read_bytes() == before


def test_an_address_is_shown_without_password_and_options() -> None:
    async def address() -> str:
        settings = DatabaseSettings("postgresql://user:geheim@h:5432/d?sslmode=require")
        database = Database(settings, clock=SystemClock())
        await database.close()
        return shown(database)

    assert asyncio.run(address()) == "postgresql://user:***@h:5432/d"


@pytest.mark.slow
def test_a_store_of_this_version_is_current(tmp_path: Path) -> None:
    state = checked(f"sqlite:///{little_store(tmp_path)}")
    assert state.current
    assert state.before == state.after == state.newest


@pytest.mark.slow
def test_an_empty_file_has_no_schema_and_gets_one(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    address = f"sqlite:///{tmp_path}/empty.db"
    reported: list[str] = []
    assert (checked(address).after, checked(address).current) == (None, False)
    state = upgraded(address, report=reported.append)
    assert (state.before, state.current) == (None, True)
    assert reported == [f"{address}: from revision none to {state.newest} ...", "done"]


@pytest.mark.slow
def test_an_old_store_is_brought_up_to_date_and_stays_there(tmp_path: Path) -> None:
    path = little_store(tmp_path)
    take_back(path, "0003")
    address = f"sqlite:///{path}"
    reported: list[str] = []
    assert (checked(address).after, checked(address).current) == ("0003", False)
    first, second = (upgraded(address, report=reported.append) for _ in range(2))
    assert (first.before, first.current, second.before) == ("0003", True, first.newest)
    assert reported[-1] == f"{address} is at revision {first.newest} already"


@pytest.mark.slow
def test_a_store_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    path = little_store(tmp_path)
    spoil(path, "UPDATE alembic_version SET version_num = '9999'")
    assert not checked(f"sqlite:///{path}").current
    with pytest.raises(SchemaMismatch, match="revision 9999, which is unknown to this version"):
        upgraded(f"sqlite:///{path}", report=print)
