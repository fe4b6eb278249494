"""Finished runs compared: statistics, arms of an experiment, tables and curves."""
