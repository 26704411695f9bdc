"""The agent of one machine: runs kernels for managers and reports their state."""
