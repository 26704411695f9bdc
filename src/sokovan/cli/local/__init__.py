"""Commands that work on this machine itself, through the entry points."""
