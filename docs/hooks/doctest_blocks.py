"""Examples in docstrings, which begin with >>>, as blocks of code: Markdown would quote them."""

import re
from typing import Any

import griffe

BLOCK = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class DoctestBlocks(griffe.Extension):
    """Puts a fence around each run of lines from >>> to the next empty line."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = BLOCK.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
