"""From a request to a session: what is wrong with it, and what is filled in."""
