"""The commands of the pages about engines are those of their generators."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sokovan.cli.commands.serving.serve import name_for
from sokovan.domain.serving.engine import EngineRequest
from sokovan.orchestrator.deployments.generators.registry import GeneratorRegistry

PAGES = Path(__file__).parents[2] / "docs/howto/engines"
SECRET = "SECRET"  # noqa: S105  # as the pages write it


def request_of(line: str) -> EngineRequest:
    """The request of `sokovan serve MODEL --engine ENGINE ... -- ARGUMENTS`."""
    words, _, rest = line.removeprefix("$ sokovan serve ").partition(" -- ")
    model, *options = shlex.split(words)
    given = dict(zip(options[::2], options[1::2], strict=True))
    engine, after = given["--engine"], tuple(shlex.split(rest))
    name, value = given.get("--env", "=").split("=")
    return EngineRequest(
        variant=engine,
        model=model,
        served_name=name_for(model),
        accelerators=int(given.get("--gpus", 0)),
        secret=SECRET,
        environment={name: value} if name else {},
        command=after if engine == "custom" else (),
        arguments=() if engine == "custom" else after,
    )


def test_every_engine_but_the_toy_has_a_page() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == {*GeneratorRegistry().names} - {"toy"}


@pytest.mark.parametrize("engine", sorted({*GeneratorRegistry().names} - {"toy"}))
def test_the_command_and_variables_of_a_page_are_those_of_the_generator(engine: str) -> None:
    page = (PAGES / f"{engine}.md").read_text(encoding="utf-8")
    [line] = re.findall(r"```console\n(.*?)\n```", page)
    [command] = re.findall(r"```text\n(.*?)\n```", page)
    request = request_of(line)
    defined = GeneratorRegistry().define(request)
    assert shlex.split(command) == list(defined.command) or not defined.command
    shown = dict(
        one.split("=", 1)
        for one in "".join(re.findall(r"```text variables\n(.*?)```", page, re.DOTALL)).split("\n")
        if one
    )
    made = {name: value for name, value in defined.environment.items() if name not in request.environment}
    assert {name: SECRET if value.startswith("the secret") else value for name, value in shown.items()} == made
    path = defined.probe.path
    assert not path or f"`{path}` is checked" in page
    assert f"takes {defined.concurrency_max} requests at once" in page
