"""One server with fake agents and one browser for all tests of the dashboard."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from sokovan.dashboard.assets import Assets
from tests.browser.dashboard_rig import Dashboard, dashboard_up

IN_CI = bool(os.environ.get("CI"))


def missing() -> str:
    """What the tests need and this machine lacks; empty if it has all."""
    try:
        import playwright.sync_api  # noqa: F401, PLC0415  # looked for, not used
    except ImportError:
        return "playwright is not installed: make setup"
    if shutil.which("chromium") is None:
        return "chromium is not installed: make packages"
    return "" if Assets().is_built else "the dashboard is not built: make web"


def require_browser() -> None:
    """Skip the test on a machine that lacks what it needs; in CI fail it."""
    lacks = missing()
    if lacks and IN_CI:
        pytest.fail(lacks)
    if lacks:
        pytest.skip(lacks)


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """A browser in front of a server; each test opens pages of its own."""
    require_browser()
    with dashboard_up(tmp_path_factory.mktemp("home"), "--fake", "64x8") as up:
        yield up
