"""Finished runs as one page that can be mailed, and as files of figures.

    gather      from run folders to data, sorted into blocks and variants
    style       a method's name, colour and marker; how figures look
    canvas      a matplotlib figure with spots to point at; from it to SVG, PDF, PNG
    lines       lines with bands over seeds, and the table of what is drawn
    draw_*      from data to figures: accuracies, variants compared, features, heads, memories
    words       sentences and tables about the runs, and the commands that make them again
    page        the sections in order, and their HTML; template.html.j2, report.css and report.js

matplotlib and jinja2 (`pip install 'linsep[plot]'`) are imported where something is drawn or
written. A report changes no run and trains nothing.
"""
