"""What tests are made of, for this project and for authors of adapters."""
