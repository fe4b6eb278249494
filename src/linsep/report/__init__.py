"""Finished runs as one page that can be mailed, and as files of figures.

    gather      from run folders to data, sorted into blocks and arms
    style       a method's name, colour and marker; how figures look
    canvas      a matplotlib figure with spots to point at; from it to SVG, PDF, PNG
    draw_*      from data to figures, each a drawing and the table of what is drawn;
                `draw_<name>` is of the analysis of that name
    words       sentences and tables about the runs
    origin      environments, and the commands that make the runs again
    sections    what comes in which order, and only if there is data for it
    page        from sections to HTML; template.html.j2, report.css and report.js beside it

matplotlib and jinja2 (`pip install 'linsep[plot]'`) are imported where something is drawn or
written. Knows what runs left behind. Changes no run and trains nothing.
"""
