"""The example plugins, loaded as a profile would find them."""

from __future__ import annotations

import pytest

from sokovan.scheduling.registry import PluginRegistry
from tests.examples.package import example_registry


@pytest.fixture(scope="session")
def registry() -> PluginRegistry:
    return example_registry()
