"""Writes the pages of docs/methods/ and docs/reference/catalog.md from the catalog's files; costs and models are tried
out, and kept in src/troth/core/tried.json for `troth list`.

python scripts/docs/document.py          writes all of them
python scripts/docs/document.py --check  fails if one is not what it would write
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))  # the tests' small models

from fakes import CORPUS, FAMILIES, encoder, masked_lm, planted, prompted  # noqa: E402
from troth.cli import app  # noqa: E402
from troth.core import catalog  # noqa: E402
from troth.core.catalog import definition, paragraphs, signature  # noqa: E402
from troth.core.errors import TrothError  # noqa: E402
from troth.core.types import Attribution, Example, Question  # noqa: E402
from troth.engine.prober import Prober  # noqa: E402
from troth.engine.routines import Routine  # noqa: E402
from troth.explainers import Explainer  # noqa: E402
from troth.explainers.random import Random  # noqa: E402
from troth.models import TextClassifier, load_model  # noqa: E402
from troth.verbs.explain import explain  # noqa: E402
from troth.verbs.measure import measure_each  # noqa: E402

WORDS = " ".join(CORPUS[:4]).replace(",", "").split()
NAMES = {
    "bert": "BERT",
    "roberta": "RoBERTa",
    "xlm_roberta": "XLM-RoBERTa",
    "distilbert": "DistilBERT",
    "albert": "ALBERT",
    "electra": "ELECTRA",
    "deberta_v2": "DeBERTa-v2",
    "modernbert": "ModernBERT",
}
TRIED = ("explainers", "metrics", "maskings")
WRITTEN = "<!-- Written by scripts/docs/document.py from the files; edit those. -->"


# What is tried out


@dataclasses.dataclass(frozen=True)
class Counted(Explainer):
    """A random explanation that counts how often it is asked for."""

    signed: ClassVar[bool] = False
    times: list[int] = dataclasses.field(default_factory=lambda: [0], compare=False, repr=False)

    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        self.times[0] += len(questions)
        drawn = yield from Random().ask(questions)
        # Another order than the random baseline's.
        return [dataclasses.replace(each, scores=-each.scores) for each in drawn]


def text_of(words: int) -> Example:
    text = " ".join(WORDS[place % len(WORDS)] for place in range(words))
    return Example(id="tried", text=text, label=0, rationale=((0, 1),))


def metric_cost(metric: str) -> str:
    """Forward passes, and how often the metric explains again."""

    def passes(words: int) -> tuple[int, int]:
        prober, counted = Prober(encoder()), Counted()
        given = explain(encoder(), [text_of(words)], counted)
        counted.times[0] = 0
        list(measure_each(prober, given, metric, explainer=counted))
        return prober.cost.forward, counted.times[0]

    lengths = LONG if catalog.build("metrics", metric).passes(LONG[0]) < 1_000 else SHORT
    forward, explanations = zip(*[passes(words) for words in lengths], strict=True)
    again = f" and {by_length(explanations, lengths)} explanations" if any(explanations) else ""
    return by_length(forward, lengths) + again


def explainer_cost(explainer: str, lengths: Sequence[int]) -> str:
    """Forward passes, and how many of them go backward too."""

    def passes(words: int) -> tuple[int, int]:
        prober = Prober(encoder())
        encodings = prober.model.encode([text_of(words)])
        method = catalog.build("explainers", explainer).prepare(prober, encodings)
        prober.ask(method.ask([Question(encodings[0], target=0)]))
        return prober.cost.forward, prober.cost.backward

    forward, backward = zip(*[passes(words) for words in lengths], strict=True)
    return by_length(forward, lengths) + (f", {by_length(backward, lengths)} backward" if any(backward) else "")


LONG, MIDDLE, SHORT = (20, 40, 60), (12, 24, 36), (4, 8, 12)


def by_length(counts: Sequence[int], lengths: Sequence[int]) -> str:
    """A count that is constant, or a line in n, or what it was at each length.

    >>> by_length([5, 5, 5], LONG), by_length([21, 41, 61], LONG), by_length([1, 5, 2], LONG)
    ('5', 'n + 1', '1, 5, 2 at n = 20, 40, 60')
    """
    slope, rest = divmod(counts[1] - counts[0], lengths[1] - lengths[0])
    constant = counts[0] - slope * lengths[0]
    if rest or any(count != slope * length + constant for count, length in zip(counts, lengths, strict=True)):
        return f"{', '.join(map(str, counts))} at n = {', '.join(map(str, lengths))}"
    if slope == 0:
        return str(constant)
    sign = "+" if constant > 0 else "−"
    return f"{'' if slope == 1 else slope}n" + (f" {sign} {abs(constant)}" if constant else "")


def options(found: type[Any]) -> str:
    """Every option with its default."""
    return ", ".join(f"`{option}`" for option in signature(found)) or "none"


def with_language_model(masking: str, kind: str) -> str:
    """`infill` with a masked language model that has the tokens of this kind of encoder."""
    family = next((family for family, name in NAMES.items() if name == kind), "bert")
    return f"infill(model={masked_lm(family)!r})" if masking == "infill" else masking


@cache
def models_of(explainer: str, **options: str) -> tuple[str, str]:
    """The kinds of models an explainer works on, and what it says where it works on none."""
    kinds: dict[str, Callable[[], TextClassifier]] = {
        **{NAMES[family]: (lambda family=family: encoder(family)) for family in FAMILIES},
        "prompted language models": prompted,
        "black boxes": lambda: load_model(planted()),
    }
    works, problem = [], ""
    for kind, make in kinds.items():
        try:
            given = {name: with_language_model(option, kind) for name, option in options.items()}
            explain(make(), ["a good film with an awful end"], explainer, **given)
            works.append(kind)
        except TrothError as error:
            problem = str(error)
    encoders = list(NAMES.values())
    if all(kind in works for kind in encoders):
        works = ["every encoder", *[kind for kind in works if kind not in encoders]]
    return ", ".join(works), problem


# Pages


@cache
def tried(kind: str, name: str) -> dict[str, str]:
    """What was tried out of a method: the facts that `troth list` shows, too."""
    if kind == "metrics":
        return {"cost": metric_cost(name)}
    if kind == "maskings":
        return {"models": models_of("leave_one_out", masking=name)[0]}
    works, problem = models_of(name)
    return {"cost": _cost(name) if works else "–", "models": works or problem}


def tried_file() -> str:
    """src/troth/core/tried.json"""
    facts = {kind: {name: tried(kind, name) for name in catalog.names(kind)} for kind in TRIED}
    return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"


def metric_entry(name: str) -> tuple[str, list[str]]:
    """A metric's row in the table and its section."""
    found = catalog.find("metrics", name)
    arrow = {True: "↑", False: "↓", None: "–"}[found.higher_is_better]
    masking = getattr(found, "masking", "–")
    what, papers = definition("metrics", name)
    needs = [
        *(["human rationales"] if found.needs_rationale else []),
        *(["gold labels"] if found.needs_label else []),
        *(["the explainer, to explain again"] if found.explains_again else []),
    ]
    return f"| [{name}](#{name}) | {arrow} | {found.bounds} | {masking} | {tried('metrics', name)['cost']} |", [
        f"## {name}",
        what,
        *([f"`{found.formula}`"] if found.formula else []),
        *paragraphs("metrics", name)[1:],
        f"- **Paper:** {papers}",
        f"- **Options:** {options(found)}",
        *([f"- **Needs:** {', '.join(needs)}"] if needs else []),
        f"- **Beware:** {found.pitfalls}",
    ]


def metrics_page() -> str:
    """docs/methods/metrics.md"""
    intro = (
        "This page lists all metrics, which measure how faithful an explanation is. Select them with `--metrics "
        "comprehensiveness` or "
        '`metrics=["comprehensiveness"]`. ↑ means that higher is better, ↓ that lower is better. The column *masking* '
        "shows the default of the `masking` option. *Forward passes* is the cost of a text of n units; equal inputs "
        "count once. All metrics except sparsity rank scores as they are, not by absolute value; among equal scores, "
        "the "
        "earlier unit comes first. An undefined score is NaN with a reason; it is counted and left out of means. "
        "[Concepts](../guide/concepts.md#signs) lists the symbols of the formulas."
    )
    head = ["| metric | better | values | masking | forward passes |", "|---|---|---|---|---|"]
    return page("Metrics", intro, head, [metric_entry(name) for name in catalog.names("metrics")])


def explainer_entry(name: str) -> tuple[str, list[str]]:
    """An explainer's row in the table and its section."""
    found = catalog.find("explainers", name)
    works, problem = models_of(name)
    cost = tried("explainers", name)["cost"]
    sign = "yes" if found.signed else "no"
    what, papers = definition("explainers", name)
    return f"| [{name}](#{name}) | {sign} | {cost} | {works or 'see below'} |", [
        f"## {name}",
        what,
        *([f"`{found.formula}`"] if found.formula else []),
        *paragraphs("explainers", name)[1:],
        f"- **Paper:** {papers}",
        f"- **Options:** {options(found)}",
        *([] if works else [f"- **If a required option is missing:** {problem}"]),
        *([f"- **Beware:** {found.pitfalls}"] if found.pitfalls else []),
    ]


def explainers_page() -> str:
    """docs/methods/explainers.md"""
    intro = (
        "This page lists all explainers, which show the units that push toward a class. Select one with `-e "
        "leave_one_out` or "
        '`troth.explain(model, text, "leave_one_out")`. An explainer gives each unit a score. If its scores are '
        "signed, "
        "a negative score means that the unit pushes away from the class, and the option `absolute=true` gives "
        "absolute values instead, also at every step of a metric that explains again. *Forward passes* is the cost of "
        "a text of n units. *Models* are those on which the "
        "explainer was tried: a small model of each family, a prompted Llama, and a function from texts to "
        "probabilities (a black box). [Concepts](../guide/concepts.md#signs) lists the symbols of the formulas."
    )
    head = ["| explainer | signed | forward passes | models |", "|---|---|---|---|"]
    return page("Explainers", intro, head, [explainer_entry(name) for name in catalog.names("explainers")])


def catalog_page() -> str:
    """docs/reference/catalog.md"""
    links = ", ".join(f"[{kind}](../methods/{kind}.md)" for kind in METHODS)
    parts = [
        WRITTEN,
        "# Data sets, recipes, bases, studies and commands",
        "This page lists everything that commands select by name, except methods, which have their own pages: "
        f"{links}. "
        "`troth list datasets` prints the first list.",
    ]
    for kind in catalog.KINDS:
        if kind not in METHODS:
            parts += [f"## {kind.capitalize()}", listed(kind)]
    rows = [f"| `troth {command.name}` | {_first_paragraph(command.callback)} |" for command in app.registered_commands]
    parts += ["## Commands", "\n".join(["| command | what it does |", "|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"


def maskings_page() -> str:
    """docs/methods/maskings.md"""
    intro = (
        "This page lists all maskings, which are the ways to erase a unit. `keep` is the share of a unit that remains: "
        "0 if it is erased, 1 if it is whole. Select a masking with the option `masking` of metrics, explainers and "
        'commands: `--masking delete` or `masking="zero"`. By default, each metric uses the masking of its paper '
        "([metrics](metrics.md))."
    )
    return "\n\n".join([WRITTEN, "# Maskings", intro, listed("maskings")]) + "\n"


def listed(kind: str) -> str:
    """A table with a row per entry of the catalog."""
    rows = [
        f"| `{name}` | {catalog.summary(kind, name)} | {options(catalog.find(kind, name))} |"
        for name in catalog.names(kind)
    ]
    return "\n".join([f"| {catalog.KINDS[kind]} | what it is | options |", "|---|---|---|", *rows])


def _first_paragraph(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def _cost(name: str) -> str:
    try:
        return explainer_cost(name, MIDDLE)
    except TrothError:
        return explainer_cost(name, SHORT)


def page(title: str, intro: str, head: Sequence[str], entries: Sequence[tuple[str, Sequence[str]]]) -> str:
    table = "\n".join([*head, *(row for row, _ in entries)])
    sections = [paragraph for _, section in entries for paragraph in section]
    text = "\n\n".join([WRITTEN, f"# {title}", intro, table, *sections]) + "\n"
    return re.sub(r"\n\n(?=- )", "\n", text).replace("\n- **Paper", "\n\n- **Paper")


METHODS: dict[str, Callable[[], str]] = {
    "explainers": explainers_page,
    "metrics": metrics_page,
    "maskings": maskings_page,
}
FILES: dict[Path, Callable[[], str]] = {
    **{ROOT / "docs" / "methods" / f"{kind}.md": write for kind, write in METHODS.items()},
    ROOT / "docs" / "reference" / "catalog.md": catalog_page,
    catalog.TRIED: tried_file,
}


def main(arguments: Sequence[str]) -> int:
    """Writes the pages, or prints which is out of date."""
    wrong = 0
    for path, write in FILES.items():
        text = write()
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{path.name} is out of date; run python scripts/docs/document.py\n")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
