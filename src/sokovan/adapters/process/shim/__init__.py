"""The small program that holds one kernel.

It runs without site-packages and imports little, so that a hundred of them cost a
machine next to nothing: no pathlib, no dataclasses, no typing at run time.
"""
