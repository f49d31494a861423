from labelspace.methods.dual_encoder.method import DualEncoder

__all__ = ["DualEncoder"]
