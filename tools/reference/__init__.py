"""Writes the pages of docs/reference that follow from the code.

`python -m tools.reference` writes them; `--check` only says whether they drifted.
"""
