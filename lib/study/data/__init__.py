"""Real data: found, checked, and given out as arrays."""
