"""Session intake: validates requests and prepares session specifications."""
