"""What goes on for longer than a request: watching, and logs."""
