"""Trained once, asked often: decoders over a prior, encoders on them, and how near they come to exact posteriors."""
