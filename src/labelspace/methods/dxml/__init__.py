from labelspace.methods.dxml.method import DXML

__all__ = ["DXML"]
