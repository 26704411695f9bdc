"""The laws that the auditor checks, and those it cannot."""

from __future__ import annotations

from sokovan.adapters.sql.invariants.auditor import INVARIANTS, NOT_CHECKED

INTRODUCTION = """\
# Invariants

What is true of the store after every commit, whatever happened before it. `sokovan audit` checks each one on one
consistent state and names the rows that break it; see [how to audit a store](../howto/audit.md). Tests and simulations
use the same checks. Programs key on the number; the words may be improved.

| Number | Title | Meaning |
|---|---|---|
"""

OTHERS = """
The numbers that are missing belong to laws that rows alone cannot tell. They are kept and tested elsewhere.

| Number | Why the store cannot tell |
|---|---|
"""


def page() -> str:
    """The page of invariants, judged and not judged."""
    judged = [f"| `{law.id}` | {law.title} | {law.meaning} |\n" for law in INVARIANTS]
    others = [f"| `{law}` | {why} |\n" for law, why in NOT_CHECKED.items()]
    return "".join((INTRODUCTION, *judged, OTHERS, *others))
