"""What listens to training: callbacks, checkpoints, history, progress."""
