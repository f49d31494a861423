from labelspace.methods.fusion.method import Fusion

__all__ = ["Fusion"]
