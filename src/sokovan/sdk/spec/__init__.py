"""Session specs: YAML files that describe sessions."""
