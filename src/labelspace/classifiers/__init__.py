"""Sparse linear models: dual coordinate descent, one-vs-rest, trees of linear classifiers."""
