"""Commands that submit, show and stop sessions."""
