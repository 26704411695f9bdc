"""Every link from one page to another leads to a file, and ports in examples are those of their parts."""

import re
from pathlib import Path

import pytest

from sokovan.wire.api.system import GATEWAY_PORT, MACHINES_PORT

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md"), *ROOT.glob("examples/*/*.md")]
# Where agents of other machines are listened for, or dial.
MACHINES = re.compile(r"(?:sokovan (?:up|server)\b[^\n]*--listen \S+|wss://[^\s:]+):(\d+)")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_pages_give_agents_of_other_machines_a_port_that_nothing_else_has() -> None:
    found = {port for page in PAGES for port in MACHINES.findall(page.read_text(encoding="utf-8"))}
    assert found == {str(MACHINES_PORT)}
    assert MACHINES_PORT != GATEWAY_PORT
