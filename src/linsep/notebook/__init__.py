"""linsep in Python sessions and notebooks: train a run, load one, gather and compare many.

    saved       one run in its folder, and what notebooks display
    runs        train runs; several of them as a frame, a comparison, a plot, a report

The names that users import from here are in `linsep.__all__`.
"""
