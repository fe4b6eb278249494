"""The BFP paper (CVPR 2023) as data: its tables and hyper-parameters, typed in once.

tables.py          look a printed number up; numbers that cannot be right
protocol.py        how each method was run, as a run's settings; at full and at smaller scale
reproduction.py    the printed numbers beside those of our runs
scales.toml        the scales
*.toml             one file per table
hyperparameters/   one file per scenario
"""
