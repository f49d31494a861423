"""Text to vectors: words, tokens, dense vectors, and the pipeline that a saved model carries."""

from labelspace.features.hashing import Hashing
from labelspace.features.parts import SideBySide, TextFeatures, make_features
from labelspace.features.pipeline import FeaturePipeline, pipeline_for
from labelspace.features.sentences import SentenceVectors
from labelspace.features.static import StaticVectors
from labelspace.features.tfidf import Tfidf
from labelspace.features.tokens import Tokens
from labelspace.features.word2vec import WordVectors

__all__ = [
    "FeaturePipeline",
    "Hashing",
    "SentenceVectors",
    "SideBySide",
    "StaticVectors",
    "TextFeatures",
    "Tfidf",
    "Tokens",
    "WordVectors",
    "make_features",
    "pipeline_for",
]
