"""Commands that reach programs which listen in sessions."""
