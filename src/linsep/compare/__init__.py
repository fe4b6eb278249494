"""Finished runs compared: statistics, variants of an experiment, tables and curves."""
