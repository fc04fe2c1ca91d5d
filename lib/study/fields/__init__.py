"""Notebook 8: unknown fields. A published benchmark with 64 coefficients, and a groundwater field."""
