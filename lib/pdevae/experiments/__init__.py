"""The experiments of the notebooks: each a pure function of (configuration, seed) that returns columns."""
