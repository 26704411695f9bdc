"""Server-sent event streams: watching and logs."""
