"""The rules of the tree that no other tool checks: sizes, names, places, reasons.

`python -m tools.tidy` reads the tree once, asks every rule of `rules.RULES` for
what it finds, takes away what `tidy-waivers.toml` waives, and prints the rest.
"""
