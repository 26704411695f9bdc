"""Lifecycles as tables: every legal move of every kind of object, as rows."""
