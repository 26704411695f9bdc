"""The figures that a server exposes to Prometheus."""

from __future__ import annotations

from sokovan.adapters.prometheus import FIGURES, PREFIX

INTRODUCTION = """\
# Metrics

`GET /metrics` gives these to an administrator's key, in Prometheus' text format. Labels have few values each; there is
never one per session.

| Name | Kind | Labels | Meaning |
|---|---|---|---|
"""


def page() -> str:
    """The page of all figures, by name."""
    rows = [
        f"| `{PREFIX}{name}` | {figure.kind} | {', '.join(figure.labels) or '-'} | {figure.meaning} |\n"
        for name, figure in sorted(FIGURES.items())
    ]
    return INTRODUCTION + "".join(rows)
