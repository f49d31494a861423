from labelspace.methods.glas.method import GLaS

__all__ = ["GLaS"]
