"""The paper's analyses of finished runs, one module each, and what they share.

    spectrum    singular values, effective rank, proj-acc(k)         section 3.2, figure 2
    cka         similarity of features before and after a task       section 4.6, figure 5
    probe       linear probing, by logistic regression               section 4.4, figure 4
    tsne        features before and after a task on one plane        figure 1
    projection  what the backward projection A learned               section 3.3
    drift       how linearly features move when a task is learned    section 3.3

    features    a run's features at each of its snapshots, and arithmetic on them in blocks
    analyse     what an analysis is; made of a run or read from its folder; of many runs as a table

The paper writes a feature matrix as (d, n); here it is (n, d), as nets give it. Accuracies are
shares in [0, 1]. docs/extending-analyses.md shows how to add an analysis.
"""

# Each is a module here, and has its figures in the report (`ANALYSED` in report/page.py).
ANALYSES = ("spectrum", "probe", "cka", "tsne", "projection", "drift")
