"""Rules of the tree that no other tool checks: sizes, names, layout, vocabulary.

`python -m tools.tidy` reads the tree once, runs every rule of `rules.RULES`,
drops the findings that `tidy-waivers.toml` waives, and prints the others.
"""
