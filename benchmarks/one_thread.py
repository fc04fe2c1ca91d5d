"""Import before TensorFlow and NumPy: one thread, so that ratios mean what they say beside other work."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ[name] = "1"
