"""The generated pages agree with the code."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from sokovan.domain import errors as errors_module
from sokovan.domain.errors import SokovanError
from sokovan.wire.api.sessions import SessionBody
from tools.reference.pages import drifted, rendered, write

ROOT = Path(__file__).parents[2]


def test_no_generated_page_has_drifted_from_the_code() -> None:
    assert drifted(ROOT) == [], "run `make docs`"


def test_a_page_that_was_edited_by_hand_is_detected_and_rewritten(tmp_path: Path) -> None:
    write(tmp_path)
    page = tmp_path / "docs/reference/slots.md"
    page.write_text(page.read_text().replace("millicores", "cores"))

    assert drifted(tmp_path) == ["docs/reference/slots.md"]
    assert write(tmp_path) == ["docs/reference/slots.md"]
    assert drifted(tmp_path) == []


def test_a_page_that_is_missing_counts_as_drifted(tmp_path: Path) -> None:
    assert set(drifted(tmp_path)) == set(rendered())


@pytest.mark.parametrize(
    "needle",
    ["PENDING --> CANCELLED: WITHDRAWN", "| TERMINATING | FORCED | TERMINATED | controller, coordinator |"],
)
def test_the_lifecycle_page_draws_diagrams_and_tables(needle: str) -> None:
    assert needle in rendered()["docs/reference/lifecycles.md"]


def test_every_error_has_a_code_of_its_own_a_hint_and_a_place_on_the_page() -> None:
    # An error with two parents is one error.
    errors: list[type[SokovanError]] = list(dict.fromkeys([SokovanError, *_below(SokovanError)]))
    codes = [error.code for error in errors]

    assert len(set(codes)) == len(codes)
    assert all(error.hint for error in errors)
    assert all(f"| `{code}` |" in rendered()["docs/reference/errors.md"] for code in codes)


def _below(error: type[SokovanError]) -> list[type[SokovanError]]:
    children = [child for child in error.__subclasses__() if child.__module__.startswith("sokovan.")]
    return [*children, *(grandchild for child in children for grandchild in _below(child))]


def test_the_tree_drawn_at_the_top_of_the_errors_module_names_every_error() -> None:
    drawn = errors_module.__doc__ or ""
    everything: list[type[SokovanError]] = [SokovanError, *_below(SokovanError)]
    own = [error for error in everything if error.__module__ == errors_module.__name__]

    assert [error.__name__ for error in own if f" {error.__name__} " not in f" {drawn} ".replace("\n", " ")] == []


def test_every_field_of_a_request_is_listed_with_its_flag_key_argument_and_view() -> None:
    page = rendered()["docs/reference/exposure.md"]
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert {one.name for one in fields(SessionBody)} <= set(rows)
    assert rows["tolerations"] == "| `tolerations` | `--tolerate` | `tolerations` | `tolerations` | `tolerations` |"
    assert rows["depends_on"] == "| `depends_on` | `--depends-on` | `dependsOn` | `depends_on` | `depends_on` |"
    assert "| queue | `--max` | `capability` |" in page
