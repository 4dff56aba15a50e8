"""scikit-learn's habits: `partial_fit`, tasks told by their classes, labels of any kind."""

from bntricks.estimator.classifier import IncrementalClassifier

__all__ = ["IncrementalClassifier"]
