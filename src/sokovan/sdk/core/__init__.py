"""The client without its network: requests out, answers in, nothing waits here."""
