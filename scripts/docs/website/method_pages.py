"""One page per explainer, metric and masking, from its file: meaning, formula, an example that is run, cost, pitfalls,
paper.
"""

from __future__ import annotations

import html
import math
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any

from troth.core import catalog
from troth.report.citing import entries, references

KINDS = ("explainers", "metrics", "maskings")
TEXT = "A slow start, but what a wonderful ending."
SHOWN = ("leave_one_out", "integrated_gradients", "random")  # explanations that a metric's page measures
KEPT = Path(__file__).resolve().parent / "kept"  # what examples showed that cannot be run everywhere


def method_page(kind: str, name: str) -> str:
    """The whole page in Markdown."""
    cls = catalog.find(kind, name)
    meaning, _ = catalog.definition(kind, name)
    formula = [f"```text\n{cls.formula}\n```", "The [signs](../../guide/concepts.md#signs)."] if cls.formula else []
    parts = [
        f"# {name}",
        meaning,
        *formula,
        "## Example",
        *example(kind, name),
        "## Facts",
        facts(kind, name, cls),
        *(["## Beware", cls.pitfalls] if cls.pitfalls else []),
        *(["## In detail", *catalog.paragraphs(kind, name)[1:]] if len(catalog.paragraphs(kind, name)) > 1 else []),
        *papers(kind, name),
        f"The method's file: `{catalog.file(kind, name).relative_to(catalog.file(kind, name).parents[3])}`. "
        f"[All {kind}](../{kind}.md).",
    ]
    return "\n\n".join(parts) + "\n"


def facts(kind: str, name: str, cls: type[Any]) -> str:
    """A table of what it costs, what it needs and how it is written."""
    tried = catalog.tried(kind, name)
    rows = {}
    if kind != "maskings":
        rows["cost, in passes for n units"] = tried.get("cost", "–")
    if kind == "explainers":
        rows["signed"] = "yes" if cls.signed else "no"
    elif kind == "metrics":
        rows["better"] = {True: "higher", False: "lower", None: "neither"}[cls.higher_is_better]
        rows["values"], rows["measures"] = cls.bounds, cls.measures
    else:
        rows["cost"] = "of the pass itself: none is added" + ("; rows are shorter" if name == "delete" else "")
        rows["changes"] = cls.level
        rows["a fraction kept"] = "no: a unit is kept or erased" if cls.whole else "yes"
        rows["draws at random"] = "yes" if cls.stochastic else "no"
    if kind != "metrics":
        rows["models"] = tried.get("models", "–")
    rows["options"] = ", ".join(f"`{option}`" for option in catalog.signature(cls)) or "none"
    return "\n".join(["| | |", "|---|---|", *(f"| {title} | {_cell(fact)} |" for title, fact in rows.items())])


_BEGIN = f"""import troth

model = troth.load_model("embedded")
text = "{TEXT}"
"""
_MEASURED = f"""import troth

model = troth.load_model("embedded")
text = "{TEXT}"
example = troth.Example(id="1", text=text, label=1, rationale=((25, 34),))
methods = {list(SHOWN)}
explained = troth.explain(model, [example], methods)
""".replace("'", '"')
_FITTED = f"""import tempfile

import troth
from troth.verbs.fit import Settings

model = troth.load_model("embedded")
text = "{TEXT}"
folder = tempfile.mkdtemp()
troth.fit(
    model,
    "reviews",
    folder,
    backbone="explained",
    lambdas={{"prediction": 1.0, "sparsity": 1.0, "inverse": 1.0}},
    settings=Settings(examples=100, validation=10, epochs=2, validate_every=1, learning_rate=3e-4),
    progress=False,
)
(shown,) = troth.explain(model, text, f"attributive_masking(checkpoint={{folder}})")
"""
_RANKED = f"""{_BEGIN}folder = "SmolLM2-135M-Instruct"
(shown,) = troth.explain(model, text, f"llm_ranking(model={{folder}})")
"""
OWN_CODE = {"attributive_masking": _FITTED, "llm_ranking": _RANKED}
WHY_KEPT = {
    "attributive_masking": "Fitting takes about a minute on one core, so what is shown was computed once and kept.",
    "llm_ranking": (
        "What is shown was computed once and kept. SmolLM2-135M-Instruct (4-bit weights, not shipped with troth) is so "
        "small that its answer is no list of words, so every score is 0 (`shown.note` says so): take a larger one."
    ),
}
WHY_NOT_RUN = {
    "infill": "It is not run here: the words are written by a masked language model, and none comes with troth.",
}


def code(kind: str, name: str) -> str:
    """The example as a reader can run it; it leaves its result in `shown`."""
    if kind == "metrics":
        return f"""{_MEASURED}shown = {{}}
for name, found in explained.items():
    (shown[name],) = troth.measure(model, found, "{name}")
"""
    if kind == "maskings":
        spec = "infill(model='my-bert-mlm')" if name == "infill" else name
        return f"""{_BEGIN}(shown,) = troth.explain(model, text, "leave_one_out", masking="{spec}")
(score,) = troth.measure(model, [shown], "comprehensiveness(masking={spec})")
"""
    return OWN_CODE.get(name, f'{_BEGIN}(shown,) = troth.explain(model, text, "{name}")\n')


def example(kind: str, name: str) -> list[str]:
    """The example and what it shows when it is run, here and now; of an expensive one what was kept."""
    block = f"```python\n{code(kind, name)}```"
    if name in WHY_NOT_RUN:
        return [block, WHY_NOT_RUN[name]]
    if name in WHY_KEPT:
        kept = (KEPT / f"{name}.html").read_text(encoding="utf-8")
        return [block, f'<div class="shown">{kept}</div>', WHY_KEPT[name]]
    return [block, f'<div class="shown">{run(kind, name)}</div>']


def run(kind: str, name: str) -> str:
    """What the example shows, as HTML in one line: a blank one would end it in Markdown."""
    names: dict[str, Any] = {}
    exec(code(kind, name), names)
    shown = {"metrics": _measured, "maskings": _erased, "explainers": _explained}[kind](names)
    return " ".join(shown.split("\n"))


def _explained(names: dict[str, Any]) -> str:
    shown: str = names["shown"]._repr_html_()
    return shown


def _erased(names: dict[str, Any]) -> str:
    """What leaving out each word does under this masking, and what erasing the top fifth of them costs."""
    value = names["score"].value
    bar = f'<span class="bar" style="width:{25 * max(0.0, value):.1f}%"></span>'
    return f"{_explained(names)}<p>{bar} <b>{value:.3f}</b> of the probability is lost without the top fifth</p>"


def _measured(names: dict[str, Any]) -> str:
    """The explanations of one text side by side, and under them the score of each as number and bar."""
    shown = names["shown"]
    finite = [abs(score.value) for score in shown.values() if math.isfinite(score.value)]
    largest = max(finite, default=0.0) or 1.0
    rows = []
    for name, score in shown.items():
        width = 100 * abs(score.value) / largest if math.isfinite(score.value) else 0
        value = f"{score.value:.3f}" if math.isfinite(score.value) else f"undefined: {score.why}"
        bar = f'<span class="bar" style="width:{width:.1f}%"></span>'
        rows.append(f"<tr><td>{html.escape(name)}</td><td>{bar}</td><td><b>{html.escape(value)}</b></td></tr>")
    return f'{names["explained"]._repr_html_()}<table class="scores">{"".join(rows)}</table>'


def papers(kind: str, name: str) -> list[str]:
    """The papers that the file names, as text and as BibTeX."""
    known = [reference for reference in references(kind, name) if reference.key in entries()]
    if not known:
        return ["## Papers", "None of its own."]
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


if (
    __name__ == "__main__"
):  # python scripts/docs/website/method_pages.py NAME…, in a folder with the model: keeps what it shows
    for kept_name in sys.argv[1:]:
        (KEPT / f"{kept_name}.html").write_text(run("explainers", kept_name) + "\n", encoding="utf-8")
