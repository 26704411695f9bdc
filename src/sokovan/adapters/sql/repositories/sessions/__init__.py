"""The session repository and its queries."""
