"""How fast linsep is on this machine, as ratios measured in one process: `python -m benchmarks`."""
