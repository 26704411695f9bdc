"""Test support for this project and for authors of adapters."""
