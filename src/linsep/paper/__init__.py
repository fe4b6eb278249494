"""The BFP paper (CVPR 2023) as data: its tables and hyper-parameters, typed in once.

    tables.py          look a cell or a hyper-parameter up
    audit.py           what in the printed numbers cannot be so
    *.toml             one file per table
    hyperparameters/   one file per scenario

Knows what was printed, not what is right, and nothing of runs.
"""
