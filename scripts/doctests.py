"""For the API reference: sessions in docstrings (>>> ...) are shown as code."""

import re

from griffe import Extension, Object

SESSION = re.compile(r"^([ ]*)>>> .*(?:\n\1\S.*)*", re.MULTILINE)


class Doctests(Extension):
    def on_object(self, *, obj: Object, **_: object) -> None:
        if obj.docstring is not None:
            fence = "```"
            obj.docstring.value = SESSION.sub(rf"{fence}pycon\n\g<0>\n{fence}", obj.docstring.value)
