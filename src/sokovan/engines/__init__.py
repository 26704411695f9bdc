"""Engines that are part of the package; programs that run inside kernels."""
