"""Finished runs as one page that can be mailed, and as files of figures.

    gather      from run folders to data, sorted into blocks and variants
    canvas      how methods look; a figure, its SVG, PDF or PNG, and spots to point at
    lines       means over seeds as lines or dots, and the table of what is drawn
    draw_*      from data to figures: accuracies, variants compared, analyses
    answer      the question, its answer in tiles and sentences, and the table of results
    words       tables about settings, costs and environments, and the commands to repeat the runs
    page        the sections in order, and their HTML; template.html.j2, report.css and report.js

matplotlib and jinja2 (`pip install 'linsep[plot]'`) are imported where something is drawn or
written. A report changes no run and trains nothing.
"""
