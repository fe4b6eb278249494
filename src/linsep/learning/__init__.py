"""Losses, terms, memories, the learner that combines them, and the run that drives it."""
