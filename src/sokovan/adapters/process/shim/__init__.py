"""The small program that supervises one kernel.

It runs without site-packages and with few imports, to use little memory per kernel: no
pathlib, no dataclasses, no typing at run time.
"""
