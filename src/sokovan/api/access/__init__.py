"""Authentication, authorization, audit and request limits."""
