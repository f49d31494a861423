"""Text to vectors: tf-idf, hashing, and the pipeline that a saved model carries."""

from labelspace.features.hashing import Hashing
from labelspace.features.pipeline import FeaturePipeline, TextFeatures, make_features, pipeline_for
from labelspace.features.tfidf import Tfidf

__all__ = ["FeaturePipeline", "Hashing", "TextFeatures", "Tfidf", "make_features", "pipeline_for"]
