"""`sokovan audit`: check the invariants of the database."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sokovan.cli.exit_codes import FAILED, OK
from sokovan.cli.local.db import status_of
from sokovan.cli.output import as_json, print_data, print_error, print_status
from sokovan.domain.errors import SokovanError, quoted
from sokovan.entrypoints.audit import AuditFinding, AuditReport, audited, chosen
from sokovan.entrypoints.database import store_address

_INDENT = " " * 5


def audit(store: str | None, *, json: bool, only: str | None) -> int:
    """Check the invariants and return the exit code."""
    try:
        report = audited(store_address(store, os.environ), only=() if only is None else chosen(only))
    except SokovanError as error:
        print_error(error, as_object=json)
        return status_of(error)
    if json:
        print_data(as_json(_object(report)))
    else:
        for finding in report.findings:
            _show(finding)
        violated = sum(not finding.holds for finding in report.findings)
        print_status(f"{report.store}: {len(report.findings) - violated} pass, {violated} fail")
    return OK if report.holds else FAILED


def _show(finding: AuditFinding) -> None:
    invariant = finding.invariant
    if finding.holds:
        print_data(f"{invariant.id:<4} pass  {invariant.title}")
        return
    rows = "1 row" if finding.count == 1 else f"{finding.count} rows"
    print_data(f"{invariant.id:<4} FAIL  {rows}: {invariant.title}")
    for violation in finding.rows:
        print_data(f"{_INDENT}{violation.problem}: {_fields(violation.row)}")
    if finding.count > len(finding.rows):
        print_data(f"{_INDENT}... and {finding.count - len(finding.rows)} more")


def _fields(row: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_value(value)}" for name, value in row.items())


def _value(value: Any) -> str:
    """A value as text, in quotes if it contains spaces or unprintable characters."""
    if value is None:
        return "-"
    text = str(value)
    return text if text.isprintable() and text and " " not in text else quoted(text)


def _object(report: AuditReport) -> dict[str, Any]:
    return {
        "store": report.store,
        "ok": report.holds,
        "invariants": [
            {
                "id": finding.invariant.id,
                "title": finding.invariant.title,
                "meaning": finding.invariant.meaning,
                "ok": finding.holds,
                "count": finding.count,
                "rows": [{"problem": violation.problem, **violation.row} for violation in finding.rows],
            }
            for finding in report.findings
        ],
    }
