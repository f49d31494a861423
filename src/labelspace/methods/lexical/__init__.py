from labelspace.methods.lexical.method import Lexical

__all__ = ["Lexical"]
