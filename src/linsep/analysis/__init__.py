"""The paper's analyses of finished runs, one module each, and what they share.

    spectrum    singular values, effective rank, proj-acc(k)         section 3.2, figure 2
    cka         similarity of features before and after a task       section 4.6, figure 5
    probe       linear probing, by logistic regression               section 4.4, figure 4
    tsne        features before and after a task on one plane        figure 1
    projection  what the backward projection A learned               section 3.3
    drift       how linearly features move when a task is learned    section 3.3

    kinds       what an analysis is, and reading back what it found
    features    a run's features at each of its snapshots
    matrix      checks of feature matrices, labels and heads
    analyse     make an analysis of a run, or read it from the run's folder
    table       an analysis of many runs as a table

The paper writes a feature matrix as (d, n); here it is (n, d), as nets give it. Accuracies are
shares in [0, 1]. docs/extending-analyses.md shows how to add an analysis.
"""

# Each is a module here, and `draw_<name>` in the report; the report shows them in this order.
ANALYSES = ("spectrum", "probe", "cka", "tsne", "projection", "drift")
