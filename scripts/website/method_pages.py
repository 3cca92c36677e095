"""One page per explainer and metric, from its file: meaning, formula, an example that is run, cost, pitfalls, paper."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from troth.core import card, catalog
from troth.report.citing import entries, references

KINDS = ("explainers", "metrics")
TEXT = "A slow start, but what a wonderful ending."
SHOWN = ("leave_one_out", "integrated_gradients", "random")  # explanations that a metric's page measures
# What an example would need first.
NEEDS = {
    "attributive_masking": "Fit an attribution model first: `troth fit attributive_masking --model MODEL --data DATA`.",
    "llm_ranking": "It needs a language model: `llm_ranking(model=FOLDER)`, or one behind an endpoint.",
}


def method_page(kind: str, name: str) -> str:
    """The whole page in Markdown."""
    cls = catalog.find(kind, name)
    meaning, _ = card.definition(kind, name)
    formula = [f"```text\n{cls.formula}\n```", "The [signs](../concepts.md#signs)."] if cls.formula else []
    parts = [
        f"# {name}",
        meaning,
        *formula,
        "## Example",
        *example(kind, name),
        "## Facts",
        facts(kind, name, cls),
        *(["## Beware", cls.pitfalls] if cls.pitfalls else []),
        *(["## In detail", *card.paragraphs(kind, name)[1:]] if len(card.paragraphs(kind, name)) > 1 else []),
        *papers(kind, name),
        f"The method's file: `{catalog.file(kind, name).relative_to(catalog.file(kind, name).parents[3])}`. "
        f"[All {kind}](../{kind}.md).",
    ]
    return "\n\n".join(parts) + "\n"


def facts(kind: str, name: str, cls: type[Any]) -> str:
    """A table of what it costs, what it needs and how it is written."""
    tried = card.tried(kind, name)
    rows = {"cost, in passes for n units": tried.get("cost", "–")}
    if kind == "explainers":
        rows["signed"] = "yes" if cls.signed else "no"
        rows["models"] = tried.get("models", "–")
    else:
        rows["better"] = {True: "higher", False: "lower", None: "neither"}[cls.higher_is_better]
        rows["values"], rows["measures"] = cls.bounds, cls.measures
    rows["options"] = ", ".join(f"`{option}`" for option in card.signature(cls)) or "none"
    return "\n".join(["| | |", "|---|---|", *(f"| {title} | {_cell(fact)} |" for title, fact in rows.items())])


def code(kind: str, name: str) -> str:
    """The example as a reader can run it; it leaves its result in `shown`."""
    if kind == "explainers":
        return f'''import troth

model = troth.load_model("embedded")
text = "{TEXT}"
(shown,) = troth.explain(model, text, "{name}")
'''
    return f'''import troth

model = troth.load_model("embedded")
example = troth.Example(id="1", text="{TEXT}", label=1, rationale=((25, 34),))
explained = troth.explain(model, [example], {list(SHOWN)})
shown = {{name: troth.measure(model, found, "{name}")[0] for name, found in explained.items()}}
'''.replace("'", '"')


def example(kind: str, name: str) -> list[str]:
    """The example and what it shows when it is run, here and now."""
    if name in NEEDS:
        return [NEEDS[name]]
    names: dict[str, Any] = {}
    exec(code(kind, name), names)
    found = _measured(names) if kind == "metrics" else names["shown"]._repr_html_()
    return [f"```python\n{code(kind, name)}```", f'<div class="shown">{_one_line(found)}</div>']


def _measured(names: dict[str, Any]) -> str:
    """Each explanation of the same text, under it its score as number and bar."""
    shown = names["shown"]
    finite = [abs(score.value) for score in shown.values() if math.isfinite(score.value)]
    largest = max(finite, default=0.0) or 1.0
    parts = []
    for name, score in shown.items():
        width = 100 * abs(score.value) / largest if math.isfinite(score.value) else 0
        value = f"{score.value:.3f}" if math.isfinite(score.value) else f"undefined: {score.why}"
        bar = f'<span class="bar" style="width:{width / 4:.1f}%"></span>'
        parts.append(f"{names['explained'][name][0]._repr_html_()}<p>{bar} <b>{html.escape(value)}</b></p>")
    return "".join(parts)


def papers(kind: str, name: str) -> list[str]:
    """The papers that the file names, as text and as BibTeX."""
    known = [reference for reference in references(kind, name) if reference.key in entries()]
    if not known:
        return []
    lines = [f"- {cited(entries()[reference.key])}" for reference in known]
    bibtex = "\n\n".join(entries()[reference.key] for reference in known)
    return ["## Papers", "\n".join(lines), f"```bibtex\n{bibtex}\n```"]


def cited(entry: str) -> str:
    r"""A BibTeX entry as a line of text.

    >>> cited("@article{a,\n  title = {On {AI}},\n  author = {Doe, Jo and others},\n  year = {2019}\n}")
    'Doe, Jo et al. (2019). *On AI*.'
    """
    fields = dict(re.findall(r"^\s*(\w+) = \{(.*)\},?$", entry, re.MULTILINE))
    authors = _plain(fields.get("author", "")).split(" and ")
    names = ", ".join(authors[:2]) if len(authors) < 3 and "others" not in authors else f"{authors[0]} et al."
    place = fields.get("booktitle") or fields.get("journal") or fields.get("publisher") or ""
    return f"{names} ({fields.get('year', 'n.d.')}). *{_plain(fields['title'])}*." + (
        f" {_plain(place)}." if place else ""
    )


_ACCENTS = {'"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "v": "\u030c", "c": "\u0327"}


def _plain(text: str) -> str:
    """Without TeX's braces and escapes; accents as letters.

    >>> _plain(r"M{\\"u}ller and {AI}")
    'Müller and AI'
    """
    text = re.sub(r"\\([\"'`^~vc])\s*\{?(\w)\}?", lambda found: found[2] + _ACCENTS[found[1]], text)
    return unicodedata.normalize("NFC", text.replace(r"\&", "&")).translate(str.maketrans("", "", "{}\\"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _one_line(found: str | Sequence[str]) -> str:
    """HTML that Markdown leaves alone: a blank line would end it."""
    return " ".join("".join(found).split("\n"))
