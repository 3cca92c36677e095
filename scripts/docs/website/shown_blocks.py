"""Python blocks followed by `<!-- shown -->`: run when the site is built, and what their last line gives is shown.

The marked blocks of one page share their names, as in a notebook.
"""

from __future__ import annotations

import ast
import re
from typing import Any

_MARKED = re.compile(r"^```python\n((?:(?!```).*\n)*)```\n\n<!-- shown -->$", re.MULTILINE)


def show_blocks(markdown: str) -> str:
    """The page with what its marked blocks show in the markers' place.

    >>> show_blocks("```python\\n1 + 1\\n```\\n\\n<!-- shown -->").splitlines()[-1]
    '<div class="shown">2</div>'
    """
    names: dict[str, Any] = {}
    return _MARKED.sub(lambda found: f"```python\n{found[1]}```\n\n{_shown(found[1], names)}", markdown)


def _shown(block: str, names: dict[str, Any]) -> str:
    tree = ast.parse(block)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), "a shown block ends with what it shows"
    exec(compile(tree, "a shown block", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "a shown block", "eval"), names)
    html = value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)
    return f'<div class="shown">{" ".join(html.splitlines())}</div>'
