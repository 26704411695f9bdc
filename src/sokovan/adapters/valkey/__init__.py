"""Events, hints and agent states that machines share, on Valkey or Redis 7."""
