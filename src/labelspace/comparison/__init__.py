"""Comparison of methods and other packages under one protocol."""
