"""Addresses at which pages of the site used to be. Each gets a small page that leads to the new address."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

PAPERS = ("aml", "fmm", "roar", "saloss", "soft")
STUDIES = ("masf", "reasoning", "recipes", "truth")
ROOMS = {
    "guide": (
        "ci", "cite", "concepts", "data", "five_minutes", "heads", "interactions", "models", "multi_label",
        "own_methods", "prompted", "reasoning", "referee_yourself", "remote", "report_page", "scaling", "serve",
        "showing", "truth", "units", "validity", "verify", "which",
    ),
    "methods": ("explainers", "metrics"),
    "reference": (
        "api", "architecture", "benchmarks", "catalog", "new_model_kind", "new_study", "referee", "stability",
    ),
}  # fmt: skip
MOVED = {
    **{f"{page}.html": f"{room}/{page}.html" for room, pages in ROOMS.items() for page in pages},
    **{f"{paper}.html": f"papers/{paper}/method.html" for paper in PAPERS},
    **{f"results/{name}.html": f"papers/{name}/results.html" for name in PAPERS + STUDIES},
    "papers.html": "papers/index.html",
    "guide/work.html": "guide/five_minutes.html",
    "work.html": "guide/five_minutes.html",
    "paper_table.html": "guide/showing.html#for-a-paper",
    "results/index.html": "papers/rows.html",
}
FOLDERS = {
    "explainers": "methods/explainers",
    "maskings": "methods/maskings",
    "metrics": "methods/metrics",
    "tutorials": "guide/tutorials",
}


def moved(built: Iterable[str]) -> dict[str, str]:
    """The new address of every old one; a folder's pages are those that were built.

    >>> moved(["methods/metrics/f.html"])["metrics/f.html"]
    'methods/metrics/f.html'
    """
    pages = {
        page.replace(new, old, 1): page for old, new in FOLDERS.items() for page in built if page.startswith(f"{new}/")
    }
    return MOVED | pages


def stub(old: str, new: str) -> str:
    """A page that opens the new address, at the same heading; without JavaScript at the top of the page.

    >>> "../guide/data.html" in stub("a/data.html", "guide/data.html")
    True
    """
    target = os.path.relpath(new, os.path.dirname(old) or ".")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>This page has moved</title>
<meta name="robots" content="noindex"><link rel="canonical" href="{target}">
<script>
const to = new URL("{target}", location);
if (location.hash) to.hash = location.hash;
location.replace(to);
</script>
<noscript><meta http-equiv="refresh" content="0; url={target}"></noscript></head>
<body><p>This page has moved: <a href="{target}">{target}</a>.</p></body></html>
"""


def write_stubs(site: Path) -> None:
    """Writes them into a built site; a new address that is not in it is an error."""
    built = [page.relative_to(site).as_posix() for page in site.rglob("*.html")]
    for old, new in moved(built).items():
        assert new.partition("#")[0] in built, f"{old} leads to {new}, which is not a page"
        assert old not in built, f"{old} is a page, so it cannot lead to {new}"
        (site / old).parent.mkdir(parents=True, exist_ok=True)
        (site / old).write_text(stub(old, new), encoding="utf-8")
