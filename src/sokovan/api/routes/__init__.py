"""What the API answers, one module for each resource."""
