"""A scikit-learn estimator: `partial_fit`, tasks recognised by their classes, any kind of label."""

from bntricks.estimator.classifier import IncrementalClassifier

__all__ = ["IncrementalClassifier"]
