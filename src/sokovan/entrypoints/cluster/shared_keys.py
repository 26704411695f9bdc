"""The keys that all managers share: for API keys, links, secrets, certificates."""

from __future__ import annotations

from pathlib import Path

from sokovan.adapters.local.atomic_file import write_whole
from sokovan.entrypoints.embedded.data_folder import DataFolder, DataFolderUnusable, PrivateFolder
from sokovan.entrypoints.settings.secret_keys import KEY_FILE, secret_box
from sokovan.entrypoints.settings.server_settings import ServerSettings

AGENT_KEY_FILE = "agent-token"
PROXY_KEY_FILE = "proxy-token"
PEPPER_FILE = "pepper"
TLS_FOLDER = "tls"
AUTHORITY_FILES = ("authority.key", "authority.pem")
SECRETS = (PEPPER_FILE, AGENT_KEY_FILE, PROXY_KEY_FILE)


def key_folder(settings: ServerSettings, folder: DataFolder) -> PrivateFolder:
    """The folder of the keys: the data folder, or the configured one.

    Raises DataFolderUnusable.
    """
    return PrivateFolder(Path(settings.cluster.keys)) if settings.cluster.keys else folder


def create_keys(folder: PrivateFolder) -> None:
    """Create the keys that are missing, before any manager uses them."""
    from sokovan.adapters.local.certificates import CertificateAuthority  # noqa: PLC0415  # loads cryptography
    from sokovan.adapters.local.clock import SystemClock  # noqa: PLC0415  # used only here

    for name in SECRETS:
        folder.secret(name)
    secret_box(folder.root, create=True)
    CertificateAuthority(folder.root / TLS_FOLDER, SystemClock())


def copy_keys(source: Path, folder: PrivateFolder) -> None:
    """Copy the keys of a data folder; those that it lacks are left out.

    Raises DataFolderUnusable.
    """
    files = (*SECRETS, KEY_FILE, *(f"{TLS_FOLDER}/{name}" for name in AUTHORITY_FILES))
    try:
        PrivateFolder(folder.root / TLS_FOLDER)
        for name in files:
            if (source / name).exists():
                write_whole(folder.root / name, (source / name).read_bytes())
    except OSError as error:
        raise DataFolderUnusable(f"{source}: {error.strerror or error}") from error
    if not (folder.root / PEPPER_FILE).exists():
        raise DataFolderUnusable(f"{source} has no keys of a server", hint="name the data folder of sokovan up")


def missing_keys(root: Path) -> list[str]:
    """The keys that a folder lacks."""
    return [name for name in (*SECRETS, KEY_FILE, TLS_FOLDER) if not (root / name).exists()]
