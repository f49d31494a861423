"""Text to vectors: tf-idf, hashing, tokens, and the pipeline that a saved model carries."""

from labelspace.features.hashing import Hashing
from labelspace.features.pipeline import FeaturePipeline, TextFeatures, make_features, pipeline_for
from labelspace.features.tfidf import Tfidf
from labelspace.features.tokens import Tokens

__all__ = [
    "FeaturePipeline",
    "Hashing",
    "TextFeatures",
    "Tfidf",
    "Tokens",
    "make_features",
    "pipeline_for",
]
