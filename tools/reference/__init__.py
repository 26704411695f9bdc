"""Generates the pages of docs/reference from the code.

`python -m tools.reference` writes them; `--check` only reports pages that are out of date.
"""
