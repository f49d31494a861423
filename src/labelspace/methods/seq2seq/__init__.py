from labelspace.methods.seq2seq.method import Seq2Seq

__all__ = ["Seq2Seq"]
