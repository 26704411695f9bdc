"""Example plugins for the Sokovan scheduler, one concept per file.

Copy the file that is nearest to what you want. Together they show every extension
point; the package's pyproject.toml says under which name each is offered.
"""
