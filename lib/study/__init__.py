"""This paper: models, experiments (each a pure function of configuration and seed), data, pictures and verdicts.

TensorFlow reads its settings when it is first imported, so they are made here.
"""

import os

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # GPflux needs Keras 2
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # oneDNN reorders sums: same seed, same numbers
