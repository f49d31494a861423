"""Callbacks of a training run: checkpoints, history, progress."""
