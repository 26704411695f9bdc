"""Events, hints and agent states shared by machines, on Valkey or Redis 7."""
