"""The checklists of CONTRIBUTING.md name files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# Paths with a placeholder, such as `api/routes/<resource>.py`, are checked up to their folder.
PATHS = sorted({path for path in re.findall(r"`([\w./<>*-]+)`", PAGE) if "/" in path})


@pytest.mark.parametrize("path", PATHS)
def test_a_path_of_a_checklist_exists(path: str) -> None:
    known, placeholder, _ = re.sub(r"[\w.-]*[<*].*", "<", path).partition("<")
    places = [base / known for base in (ROOT, ROOT / "src/sokovan", ROOT / "src/sokovan/scheduling")]
    assert any(place.is_dir() if placeholder else place.exists() for place in places)
