"""The doctor: tries everything, changes nothing, and says what to do."""

from __future__ import annotations

import os
from pathlib import Path

from sokovan.entrypoints.doctor import examine


def test_every_question_has_an_answer_in_words(tmp_path: Path) -> None:
    findings = examine({"HOME": str(tmp_path)})
    names = [finding.name for finding in findings]
    assert names == ["python", "sqlite", "sandbox", "limits", "nvidia", "data", "disk", "port", "docker"]
    assert all(finding.detail for finding in findings)
    assert list(tmp_path.iterdir()) == []


def test_whatever_is_not_well_comes_with_a_hint(tmp_path: Path) -> None:
    assert all(finding.hint for finding in examine({"HOME": str(tmp_path)}) if finding.ok is False)


def test_a_missing_sandbox_is_said_plainly(tmp_path: Path) -> None:
    found = {finding.name: finding for finding in examine({"HOME": str(tmp_path), "PATH": os.environ["PATH"]})}
    assert "sandbox" in found["sandbox"].detail
