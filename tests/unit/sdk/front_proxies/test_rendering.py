"""The products that a front proxy can be written for."""

from __future__ import annotations

from typing import get_args

from sokovan.cli.commands.serving.route_export import ExportFormat
from sokovan.sdk.front_proxies.front_proxy import front_proxy
from sokovan.sdk.front_proxies.rendering import FORMATS
from tests.unit.sdk.front_proxies.exports import export_of


def test_the_command_has_all_of_them() -> None:
    assert set(get_args(ExportFormat)) == {*FORMATS, "json"}


def test_none_of_them_names_a_replica() -> None:
    export = export_of("http://10.0.0.3:7648")
    [endpoint] = export.routes[0].endpoints
    for written in (write(front_proxy(export, only_routes=True)) for write in FORMATS.values()):
        assert "10.0.0.3" in written
        assert endpoint.agent not in written
        assert str(endpoint.port) not in written
