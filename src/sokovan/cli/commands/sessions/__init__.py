"""Commands that submit, show and end sessions."""
