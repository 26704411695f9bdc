"""The link from an agent to its manager, and the streams beside it."""
