"""Routes that stay open: watches, logs and commands in kernels."""
