"""Exports for the tests of front proxies."""

from __future__ import annotations

from dataclasses import replace

from sokovan.wire.api.routes import RouteExport
from tests.unit.wire.api.test_routes import GATEWAY, ROUTE


def export_of(*urls: str, name: str = "qwen") -> RouteExport:
    """An export with a gateway at each URL, and one route."""
    gateways = [replace(GATEWAY, proxy=f"p-{number}", url=url) for number, url in enumerate(urls)]
    return RouteExport(gateways=gateways, routes=[replace(ROUTE, name=name)])
