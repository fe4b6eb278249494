"""linsep in Python sessions and notebooks: train a run, load one, gather and compare many.

    training    train a run into its folder, as `linsep run` does
    saved       one run in its folder: its results, its net, its predictions
    many        several runs: as a frame, a comparison, a plot, a report
    display     the plots and the HTML that a notebook displays

The names that users import from here are in `linsep.__all__`.
"""
