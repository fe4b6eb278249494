"""The paper's analyses as functions of feature matrices: rows are images, columns are features.

    spectrum  singular values, effective rank, proj-acc(k)         section 3.2, figure 2
    probe     linear probing with a penalised logistic regression  section 4.4, figure 4
    logistic  the regression that probes with
    cka       similarity of features before and after a task       section 4.6, figure 5
    embed     both on one plane, by t-SNE or PCA                   figure 1
    drift     what the backward projection A learned               section 3.3

Nothing here knows a run, a file or a net. The paper writes a feature matrix as (d, n); here it is
(n, d), as nets give it. Accuracies are shares in [0, 1].
"""
