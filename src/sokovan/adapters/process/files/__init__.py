"""Files of kernels: copied in and out, and output that outlives its kernel."""
