"""A classifier that keeps learning: images in, classes out, more of both whenever they come."""
