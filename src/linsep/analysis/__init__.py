"""The paper's analyses of finished runs, and what they share.

    spectrum    singular values, effective rank, proj-acc(k)         section 3.2, figure 2
    probe       linear probing, by logistic regression               section 4.4, figure 4
                and by it forward transfer
    similarity  features before and after a task: CKA, and t-SNE     section 4.6, figures 5 and 1
    drift       how linearly features move when a task is learned,   section 3.3
                and what the backward projection A learned

    features    a run's features at each of its snapshots, and arithmetic on them in blocks
    analyse     what an analysis is; made of a run or read from its folder; of many runs as a table

The paper writes a feature matrix as (d, n); here it is (n, d), as nets give it. Accuracies are
shares in [0, 1]. docs/extending-analyses.md shows how to add an analysis.
"""

# Where each is: a module here, and the name in it. Its figures are in `ANALYSED` in report/page.py.
ANALYSES = {
    "spectrum": "spectrum:SPECTRUM",
    "probe": "probe:PROBE",
    "cka": "similarity:CKA",
    "tsne": "similarity:TSNE",
    "projection": "drift:PROJECTION",
    "drift": "drift:DRIFT",
    "transfer": "probe:TRANSFER",
}
