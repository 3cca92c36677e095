"""report.html of a run: one file with the page's script, its style and all its data; nothing is fetched.

The script and the style are built from page/ and shipped. Browsers without scripts see plain tables.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from troth.report.page_data import PageData
from troth.report.page_examples import BUDGET as BUDGET
from troth.report.page_examples import packed

# The browser itself refuses whatever would come from elsewhere.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"


def render(data: PageData, plain: Iterable[str], budget: float = BUDGET, home: str = "") -> str:
    """The page; `plain` is HTML of the same results for browsers without scripts, `home` where it is served from."""
    title = html.escape(f"troth: {data.report['title']}")
    examples, _ = packed(data.examples, budget)
    body = "\n".join(f"<section>{section}</section>" for section in plain)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'  # else a server is asked for one
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">'
        f"<style>{asset('page.css')}</style></head>\n"
        f'<body><div id="page" data-home="{html.escape(home)}"><h1>{title}</h1>\n{body}\n</div>\n'
        f'<script type="application/json" id="report-data">{script_json(data.report)}</script>\n'
        f'<script type="text/plain" id="report-examples">{examples}</script>\n'
        f"<script>{asset('page.js')}</script></body></html>\n"
    )


def script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in, nor open a comment.

    >>> script_json(["</script>"])
    '["\\\\u003c/script>"]'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


@cache
def asset(name: str) -> str:
    """A shipped file of the front end."""
    return (files("troth.report") / "page_assets" / name).read_text(encoding="utf-8")
