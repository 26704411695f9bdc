"""Components of a manager that runs with everything in one process."""
