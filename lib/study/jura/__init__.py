"""Section 5, "Heavy metal contamination, Swiss Jura": every model on the same splits, one row per predicted site."""
