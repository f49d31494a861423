"""Training curves and reliability diagrams."""
