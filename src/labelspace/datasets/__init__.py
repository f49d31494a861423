"""Public data sets by name, a generated product catalogue, and generated sparse data."""
