"""Session management: intake, coordination, explanations."""
