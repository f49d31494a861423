from labelspace.methods.treespace.method import TreeSpace

__all__ = ["TreeSpace"]
