"""Benchmarks: ratios of times, measured in one process."""
