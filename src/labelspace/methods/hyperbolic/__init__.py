from labelspace.methods.hyperbolic.method import Hyperbolic

__all__ = ["Hyperbolic"]
