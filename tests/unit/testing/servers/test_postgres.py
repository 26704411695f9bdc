"""PostgreSQL from a wheel keeps what it committed."""

import os
import tempfile
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from sokovan.testing.servers import PostgresServer, ServerProcessFailed
from sokovan.testing.servers.postgres import copied_install, reachable_by_others
from tests.servers import memory_folder

pytestmark = pytest.mark.server


async def test_a_database_takes_statements(postgres_url: str) -> None:
    engine = engine_of(postgres_url)
    async with engine.connect() as connection:
        assert await connection.scalar(text("SELECT 41 + 1")) == 42
    await engine.dispose()


def test_a_new_database_is_empty_and_a_dropped_one_is_gone(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database("short-lived")
    assert url.endswith("/short-lived")
    assert "short-lived" in postgres_server.execute("SELECT datname FROM pg_database").splitlines()
    postgres_server.drop_database("short-lived")
    assert "short-lived" not in postgres_server.execute("SELECT datname FROM pg_database").splitlines()


async def test_a_copy_of_a_database_has_its_tables(postgres_server: PostgresServer, postgres_url: str) -> None:
    engine = engine_of(postgres_url)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE copied AS SELECT 42 AS answer"))
    await engine.dispose()
    copy = engine_of(postgres_server.create_database("copy", template=postgres_url.rpartition("/")[2]))
    async with copy.connect() as connection:
        assert await connection.scalar(text("SELECT answer FROM copied")) == 42
    await copy.dispose()
    postgres_server.drop_database("copy")


async def test_a_database_is_dropped_under_its_connections(postgres_server: PostgresServer) -> None:
    engine = engine_of(postgres_server.create_database("in_use"))
    async with engine.connect() as connection:
        await connection.scalar(text("SELECT 1"))
        postgres_server.drop_database("in_use")
        with pytest.raises((DBAPIError, InterfaceError)):
            await connection.scalar(text("SELECT 1"))
    await engine.dispose()


def test_a_refused_statement_says_why(postgres_server: PostgresServer) -> None:
    with pytest.raises(ServerProcessFailed, match="no_such_table"):
        postgres_server.execute("SELECT * FROM no_such_table")


def test_commits_survive_a_kill(postgres_server: PostgresServer) -> None:
    # The shared server may not be killed; this checks the settings that make commits durable.
    assert postgres_server.execute("SHOW fsync") == "on"
    with PostgresServer() as server:
        port = server.port
        server.execute("CREATE TABLE kept AS SELECT 7 AS amount")
        # Its shared memory is in its folder: nothing of a killed server stays in /dev/shm.
        assert list((server.folder / "pgdata" / "pg_dynshmem").iterdir())
        server.kill()
        assert not server.answers()
        server.restart()
        assert server.port == port
        assert server.execute("SELECT amount FROM kept") == "7"


def test_the_shared_server_has_its_data_in_memory_where_there_is_room(postgres_server: PostgresServer) -> None:
    if postgres_server.is_given:
        pytest.skip("an external server is used")
    assert postgres_server.folder.parent == (memory_folder() or Path(tempfile.gettempdir()))


def test_a_file_system_that_is_not_there_is_not_used(tmp_path: Path) -> None:
    assert memory_folder(tmp_path / "nothing") is None


def test_a_folder_that_others_may_not_enter_is_noticed(tmp_path: Path) -> None:
    inside = tmp_path / "private" / "inside"
    inside.mkdir(parents=True)
    (tmp_path / "private").chmod(0o700)
    assert not reachable_by_others(inside)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand the server to another account")
def test_programs_that_the_account_cannot_reach_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sokovan.testing.servers.postgres.reachable_by_others", lambda _path: False)
    with PostgresServer() as server:
        assert server.programs.is_relative_to(server.folder)
        assert server.execute("SELECT 1") == "1"


def test_a_copied_install_has_its_libraries_where_it_looks_for_them(tmp_path: Path) -> None:
    for name in ("package/install/bin", "package.libs"):
        (tmp_path / "from" / name).mkdir(parents=True)
    (tmp_path / "from/package.libs/lib.so").write_text("library")
    copy = copied_install(tmp_path / "from/package/install", tmp_path / "to")
    assert (copy / "../../package.libs/lib.so").resolve().read_text() == "library"


def engine_of(url: str) -> AsyncEngine:
    return create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
