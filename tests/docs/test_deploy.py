"""The files of deploy/ name commands, options, settings and metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from sokovan.cli.app import parsed
from sokovan.entrypoints.settings.server_settings import single_settings
from sokovan.entrypoints.settings.setting_sources import variable_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
METRICS = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


def known_metrics() -> dict[str, str]:
    """The kind of every metric, by name."""
    return dict(re.findall(r"^\| `(sokovan_\w+)` \| (\w+) \|", METRICS, flags=re.MULTILINE))


def test_the_board_has_only_metrics_that_exist() -> None:
    board = json.loads((DEPLOY / "grafana" / "sokovan.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    known = known_metrics()
    for name in {name for text in expressions for name in re.findall(r"sokovan_\w+", text)}:
        plain = name.removesuffix("_bucket")
        assert plain in known, name
        assert (known[plain] == "histogram") == name.endswith("_bucket"), name
    for text in expressions:  # counters are shown as rates
        for name in re.findall(r"(sokovan_\w+_total)(?!\[)", text):
            assert f"rate({name}[" in text, text


def test_the_board_has_no_panel_twice() -> None:
    board = json.loads((DEPLOY / "grafana" / "sokovan.json").read_text(encoding="utf-8"))
    titles = [panel["title"] for panel in board["panels"]]
    assert len(set(titles)) == len(titles) == len({panel["id"] for panel in board["panels"]})


@pytest.mark.parametrize("unit", sorted((DEPLOY / "systemd").iterdir()), ids=lambda path: path.name)
def test_the_units_run_commands_with_options_that_exist(unit: Path) -> None:
    lines = re.findall(r"^ExecStart\w*=\S+/sokovan (.+)$", unit.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert lines
    for line in lines:
        words = line.split()
        verb = [words[0], "run", *words[1:]] if words[:1] == ["server"] and words[1].startswith("-") else words
        parsed(verb)


def test_the_compose_file_names_settings_and_commands_that_exist() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    variables = {variable_of(path) for path in single_settings()}
    for name in ("manager1", "manager2"):
        service = services[name]
        assert {one for one in service["environment"] if one.startswith("SOKOVAN_")} <= variables
        command = service["command"]
        parsed([command[0], "run", *command[1:]])
    assert services["manager1"]["volumes"] != services["manager2"]["volumes"]
