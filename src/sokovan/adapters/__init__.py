"""The outside world: each port kept by something that is really there."""
