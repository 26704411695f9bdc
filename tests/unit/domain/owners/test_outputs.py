"""Limits of output and copies."""

from __future__ import annotations

from sokovan.domain.owners.outputs import CopyLimits, OutputLimits


def test_output_is_kept_for_a_week_by_default() -> None:
    limits = OutputLimits()
    assert limits.retention_s == 7 * 24 * 3600
    assert limits.session_bytes_max < limits.owner_bytes_max


def test_whatever_is_kept_can_be_copied() -> None:
    assert CopyLimits().bytes_max > OutputLimits().session_bytes_max
