"""The invariants that the auditor checks, and those it cannot check."""

from __future__ import annotations

from sokovan.adapters.sql.invariants.auditor import INVARIANTS, NOT_CHECKED

INTRODUCTION = """\
# Invariants

Each invariant holds after every commit. `sokovan audit` checks them on one consistent snapshot and lists the rows that
violate them; see [how to audit a store](../howto/audit.md). Tests and simulations use the same checks.
Programs should rely on the number; the text may change.

| Number | Title | Meaning |
|---|---|---|
"""

OTHERS = """
The missing numbers belong to invariants that cannot be checked from the rows of the store. They are tested elsewhere.

| Number | Why the store is not enough |
|---|---|
"""


def page() -> str:
    """The page of invariants, checked and not checked."""
    checked = [f"| `{invariant.id}` | {invariant.title} | {invariant.meaning} |\n" for invariant in INVARIANTS]
    others = [f"| `{number}` | {why} |\n" for number, why in NOT_CHECKED.items()]
    return "".join((INTRODUCTION, *checked, OTHERS, *others))
