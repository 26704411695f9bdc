"""Arguments of commands: declared by signatures, read, and shown as help."""
