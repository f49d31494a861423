"""Pictures of training curves and of reliability."""
