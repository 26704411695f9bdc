"""The container engine of this machine: its socket, its API and its images."""
