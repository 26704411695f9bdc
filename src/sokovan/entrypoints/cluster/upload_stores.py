"""The uploads of a server: its own, and in a cluster those of the other managers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.upload_store import LocalUploads
from sokovan.entrypoints.cluster.shared_keys import TLS_FOLDER, key_folder
from sokovan.entrypoints.embedded.data_folder import DataFolder
from sokovan.entrypoints.settings.component_options import upload_limits_of
from sokovan.entrypoints.settings.listen_address import link_url
from sokovan.entrypoints.settings.server_settings import ServerSettings
from sokovan.ports.uploads import UploadStore


class UploadStores(NamedTuple):
    """The uploads that a manager has, and those that it has or gets from others."""

    own: LocalUploads
    all: UploadStore


def upload_stores(
    settings: ServerSettings, folder: DataFolder, *, shared: bool, log: Callable[[str], None], name: str = ""
) -> UploadStores:
    """The uploads in the data folder, and those of all managers.

    With `shared`, several processes write there; `name` is that of this one.
    """
    own = LocalUploads(folder.root / "uploads", upload_limits_of(settings.uploads), shared=shared)
    keys = key_folder(settings, folder).root / TLS_FOLDER
    if not settings.cluster.managers or not (keys / "authority.pem").exists():
        return UploadStores(own, own)
    from sokovan.entrypoints.joining.peer_uploads import PeerUploads, peer_links  # noqa: PLC0415  # loads cryptography

    urls = tuple(map(link_url, settings.cluster.managers))
    links = peer_links(urls, folder=keys, own=folder.root / TLS_FOLDER / name, clock=SystemClock())
    return UploadStores(own, PeerUploads(own, links, log))
