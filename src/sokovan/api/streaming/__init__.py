"""What goes on for longer than a request: watching, logs, commands."""
