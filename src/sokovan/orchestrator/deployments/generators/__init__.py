"""Definition generators: one module per engine, each a pure function of its input."""
