"""Section 5, "Eastern Snake River Plain Aquifer": every model on the same splits, one row per predicted well."""
