"""Writes the configuration file and the shared keys of a new cluster."""

from __future__ import annotations

from pathlib import Path

from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.cluster.shared_keys import copy_keys, create_keys
from sokovan.entrypoints.embedded.data_folder import PrivateFolder
from sokovan.entrypoints.settings.setting_sources import FILE

KEYS = "keys"
DATABASE = "postgresql://sokovan:PASSWORD@127.0.0.1/sokovan"
_TEXT = """\
# Settings of a manager of Sokovan. Managers of one cluster have the same file and the same keys; all settings
# are in docs/reference/settings.md, and `sokovan config server` shows those in force.

[storage]
# The database of the cluster, PostgreSQL 15 or later. Through a pooler that shares connections only with [valkey].
url = {database}

[valkey]
# Optional: valkey://HOST:PORT for messages between managers, instead of LISTEN and NOTIFY of the database.
url = "none:"

[cluster]
# The keys of the cluster: copy this folder to each manager, readable by its account only.
keys = {keys}
# HOST:PORT of each manager for agents of other machines. An agent keeps a link to each.
managers = []
# Parts that this manager runs: api, coordinator or both.
role = "both"

[orchestrator]
# Where this manager accepts agents of other machines, with TLS; empty: agents of this machine only.
listen = {listen}

[scheduler]
# Time after which another manager takes over from one that was killed.
lease_ms = 2000

[api]
# The API on 127.0.0.1.
port = 7646
# HOST:PORT of the API for clients of other machines, with TLS; empty: none.
listen = ""
"""


class FileExists(InvalidInput):
    """The configuration file exists already."""

    code = "file-exists"
    hint = "edit it, or choose another folder"


def write_server_file(root: Path, *, database: str = "", listen: str = "", keys_of: Path | None = None) -> Path:
    """Write the file and create the keys; returns the file.

    With `keys_of`, the keys of a data folder are taken over. Raises FileExists,
    DataFolderUnusable.
    """
    folder = PrivateFolder(root)
    file = folder.root / FILE
    if file.exists():
        raise FileExists(f"{file} exists")
    keys = PrivateFolder(folder.root / KEYS)
    if keys_of is not None:
        copy_keys(keys_of, keys)
    create_keys(keys)
    text = _TEXT.format(
        database=_quoted(database or DATABASE),
        keys=_quoted(str((folder.root / KEYS).absolute())),
        listen=_quoted(listen),
    )
    folder.write_private(FILE, text.rstrip())
    return file


def _quoted(text: str) -> str:
    """A TOML string. Raises InvalidInput."""
    if not text.isprintable():
        raise InvalidInput("a setting has characters that cannot be printed", hint="check the address and the folder")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
