"""Public data sets by name, and generated ones."""
