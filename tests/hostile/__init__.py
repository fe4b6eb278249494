"""Thousands of bad inputs, each with a command that reads it: `python -m tests.hostile NAME`."""
