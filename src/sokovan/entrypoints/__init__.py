"""Composition roots: choose implementations and wire them together."""
