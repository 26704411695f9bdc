"""The scheduler core: `schedule(snapshot, profile)` returns a plan.

Pure: nothing here reads a clock, a file or a random number, or writes a log. The
same snapshot gives the same plan on every machine.
"""
