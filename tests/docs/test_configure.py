"""The examples of the page about configuration agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sokovan.adapters.local.toml_files import TomlFiles
from sokovan.entrypoints.settings.server_settings import InvalidSettings, settings_of
from sokovan.ports.config import ConfigTree
from sokovan.scheduling.registry import BUILT_IN

PAGE = (Path(__file__).parents[2] / "docs/howto/configure.md").read_text(encoding="utf-8")
BLOCKS = {(kind, name): text for kind, name, text in re.findall(r"```(\w+) (\S+)\n(.*?)```", PAGE, flags=re.DOTALL)}


def tree(name: str) -> ConfigTree:
    return TomlFiles(Path(name), BLOCKS["toml", name].encode()).tree()


@pytest.mark.parametrize("name", ["sokovan.toml", "conf.d/50-busy-days.toml", "manager.toml"])
def test_every_example_is_a_valid_configuration(name: str) -> None:
    settings_of(tree(name).values, BUILT_IN)


def test_the_mistaken_example_is_refused_with_the_message_of_the_page() -> None:
    found = tree("mistaken.toml")
    with pytest.raises(InvalidSettings) as refused:
        settings_of(found.values, BUILT_IN, origins=found.origins)
    assert refused.value.message == BLOCKS["text", "mistaken.toml"].strip()
