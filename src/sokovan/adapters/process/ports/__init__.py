"""Ports of kernels: who listens there, and connections to them."""
