"""Composition roots: the places where parts are chosen and put together."""
