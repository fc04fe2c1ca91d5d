"""Models of the real-data experiments."""

from pdevae import _tensorflow  # noqa: F401  before GPflow, which would import TensorFlow with its banner and other settings
