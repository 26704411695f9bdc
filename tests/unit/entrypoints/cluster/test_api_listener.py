"""The API for other machines; tests/acceptance/test_cluster.py reaches it."""

from __future__ import annotations

from pathlib import Path

from sokovan.entrypoints.cluster.api_listener import ServerAddresses, allowed_hosts, api_listener
from sokovan.entrypoints.settings.server_settings import settings_of


def test_without_an_address_the_api_is_on_this_machine_only(tmp_path: Path) -> None:
    settings = settings_of({})
    assert api_listener(settings, folder=tmp_path, own=tmp_path) is None
    assert allowed_hosts(settings) == settings.api.allowed_hosts


def test_the_address_is_among_the_names_of_the_certificate(tmp_path: Path) -> None:
    settings = settings_of({"api": {"listen": "10.0.0.1:7645", "allowed_hosts": ["lab.example"]}})
    found = api_listener(settings, folder=tmp_path, own=tmp_path)
    assert found is not None
    assert (found.url, found.names) == ("https://10.0.0.1:7645", ("lab.example", "10.0.0.1"))
    assert allowed_hosts(settings) == found.names


def test_models_are_served_where_the_gateway_is() -> None:
    assert ServerAddresses(url="http://a:1", gateway="http://a:2").models == "http://a:2/v1"
    assert ServerAddresses(url="http://a:1").models == ""
