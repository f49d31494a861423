"""Text to vectors: words, tokens, dense vectors, and the feature pipeline of a saved model."""

from labelspace.features.base import TextTransformer
from labelspace.features.hashing import Hashing
from labelspace.features.pipeline import FeaturePipeline, pipeline_for
from labelspace.features.sentences import SentenceVectors
from labelspace.features.spec import SideBySide, TextFeatures, make_features
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
    "TextTransformer",
    "Tfidf",
    "Tokens",
    "WordVectors",
    "make_features",
    "pipeline_for",
]
