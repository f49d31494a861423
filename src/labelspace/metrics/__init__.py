"""Arithmetic on rankings: metrics, thresholds, reliability, levels."""
