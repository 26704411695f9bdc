"""Set-up that every test shares."""

from hypothesis import HealthCheck, settings

# The same examples on every machine and every run: a failure in CI is the failure on the laptop. How fast a machine
# draws examples says nothing about the code, so it fails no test.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")
