"""The BFP paper (CVPR 2023) as data: its tables and hyper-parameters, typed in once.

    tables.py          look a cell or a hyper-parameter up
    audit.py           printed numbers that are impossible or contradict each other
    protocol.py        how each method was run, as a run's settings; at full and at smaller scale
    scales.toml        the scales
    *.toml             one file per table
    hyperparameters/   one file per scenario

Knows what was printed, not what is right, and nothing of runs.
"""
