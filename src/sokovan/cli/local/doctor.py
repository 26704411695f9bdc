"""`sokovan doctor`: checks of this machine."""

from __future__ import annotations

from sokovan.cli.commands.options import Flag
from sokovan.cli.exit_codes import FAILED, OK
from sokovan.cli.output import as_json, print_data, print_status, table

MARKS = {True: "ok", False: "FAIL", None: "note"}


def doctor(*, json: Flag = False) -> int:
    """Check what this machine provides and what is missing.

    The checks change nothing. Exit codes: 0 sokovan can run here, 1 a
    requirement is missing.

    For example:
      sokovan doctor
      sokovan doctor --json

    Parameters
    ----------
    json
        Print JSON instead of a table.
    """
    from sokovan.entrypoints.doctor import run_checks  # noqa: PLC0415  # SQLite and NVML load only here

    findings = run_checks()
    if json:
        print_data(as_json([{"name": f.name, "ok": f.ok, "detail": f.detail, "hint": f.hint} for f in findings]))
    else:
        print_data(table(("CHECK", "RESULT", "DETAIL"), [(f.name, MARKS[f.ok], f.detail) for f in findings]))
        for finding in findings:
            if finding.ok is not True and finding.hint:
                print_status(f"{finding.name}: {finding.hint}")
    return FAILED if any(finding.ok is False for finding in findings) else OK
