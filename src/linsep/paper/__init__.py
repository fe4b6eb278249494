"""The BFP paper (CVPR 2023) as data: its tables and hyper-parameters, typed in once.

tables.py          look a printed number or a hyper-parameter up; numbers that cannot be right
reproduction.py    how each method was run, as a run's settings at some scale, and our runs
                   beside the printed numbers
scales.toml        the scales
protocol.toml      hyper-parameters as settings, and what the paper leaves unsaid
*.toml             one file per table
hyperparameters/   one file per scenario
"""
