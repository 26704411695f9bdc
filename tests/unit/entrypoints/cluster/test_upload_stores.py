"""The uploads of a server alone, and those of a manager among others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sokovan.entrypoints.cluster.shared_keys import create_keys
from sokovan.entrypoints.cluster.upload_stores import upload_stores
from sokovan.entrypoints.embedded.data_folder import DataFolder
from sokovan.entrypoints.joining.peer_uploads import PeerUploads
from sokovan.entrypoints.settings.server_settings import ServerSettings


def test_a_server_alone_asks_no_other_one(tmp_path: Path) -> None:
    stores = upload_stores(ServerSettings(), DataFolder(tmp_path), shared=False, log=print)
    assert stores.all is stores.own


def test_a_manager_asks_the_others_by_the_keys_of_the_cluster(tmp_path: Path) -> None:
    folder, settings = DataFolder(tmp_path), ServerSettings()
    settings = replace(settings, cluster=replace(settings.cluster, managers=("10.0.0.1:7649", "10.0.0.2:7649")))
    stores = upload_stores(settings, folder, shared=True, log=print)
    assert stores.all is stores.own, "without the keys none can be asked"
    create_keys(folder)
    assert isinstance(upload_stores(settings, folder, shared=True, log=print).all, PeerUploads)
