"""Texts for a paper on a run: a paragraph on methods, and the BibTeX entry of every method and data set used.

A method's reference is in the first paragraph of its own file, "(Li et al., 2016b)"; references.bib contains the entry
under name and year, `li2016b`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import troth
from troth.core import catalog
from troth.report.board import RANDOM, Leaderboard
from troth.report.export import latex_escaped
from troth.report.wording import joined

# The comma before the year may be missing after several authors.
_REFERENCE = re.compile(r"((?:[A-Z]\w+ )?(\w[\w-]+)( et al\.| & [\w-]+)?)(?(3),? ?|, ?)(\d{4}[a-z]?)\b")
_ENTRY = re.compile(r"^@\w+\{(\w+),.*?^\}", re.MULTILINE | re.DOTALL)


class PaperReference(NamedTuple):
    """A reference to a paper."""

    key: str  # key in references.bib
    text: str  # for example "Li et al., 2016b"


def references(kind: str, spec: str) -> list[PaperReference]:
    """The papers that the first paragraph of a method's file cites; empty for methods outside of the catalog."""
    name = spec.partition("(")[0]
    if name not in catalog.names(kind):
        return []
    return read_references(catalog.summary(kind, name))


def read_references(text: str) -> list[PaperReference]:
    """
    >>> for reference in read_references("how rare they are (Spärck Jones, 1972; Li et al. 2016a; Cohen-Wang, 2024)"):
    ...     print(reference.key, "=", reference.text)
    jones1972 = Spärck Jones, 1972
    li2016a = Li et al., 2016a
    cohenwang2024 = Cohen-Wang, 2024
    """
    return [PaperReference(_key(match[2], match[4]), f"{match[1]}, {match[4]}") for match in _REFERENCE.finditer(text)]


def _key(surname: str, year: str) -> str:
    plain = unicodedata.normalize("NFKD", surname).encode("ascii", "ignore").decode()
    return f"{plain.lower().replace('-', '')}{year}"


@cache
def entries() -> dict[str, str]:
    """The BibTeX entries by key."""
    text = files("troth.report").joinpath("references.bib").read_text(encoding="utf-8")
    return {match[1]: match[0] for match in _ENTRY.finditer(text)}


def bibtex(boards: Iterable[Leaderboard]) -> str:
    """The entries of all papers that the paragraphs cite, and of troth itself."""
    keys = sorted({reference.key for board in boards for reference in _all(board)})
    own = (
        "@software{troth,\n  author = {{The troth developers}},\n  year = {2026},\n"
        "  title = {troth: explain what a text classifier did, and prove how faithful the explanation is},\n"
        f"  version = {{{troth.__version__}}}\n}}"
    )
    return "\n\n".join([*(entries()[key] for key in keys if key in entries()), own]) + "\n"


def unreferenced(boards: Iterable[Leaderboard]) -> list[str]:
    """Methods without a known paper: the user's own, or those without an entry."""
    cited = {spec: papers for board in boards for spec, papers in _methods(board)}
    known = entries()
    return sorted(spec for spec in cited if spec != RANDOM and not any(paper.key in known for paper in cited[spec]))


def paragraphs(boards: Iterable[Leaderboard], *, latex: bool = False) -> list[str]:
    """One paragraph for each group of boards with the same explainers, metrics and settings."""
    groups: dict[object, list[Leaderboard]] = {}
    for board in boards:
        done = (frozenset(board.explainers), frozenset(board.metrics), board.setting, board.seeds, _checked(board))
        groups.setdefault(done, []).append(board)
    return [paragraph(*some, latex=latex) for some in groups.values()]


def paragraph(board: Leaderboard, *others: Leaderboard, latex: bool = False) -> str:
    """What was done, with a reference for each method; `others` differ only in model and data."""
    shown = latex_escaped if latex else str

    def cited(some: Iterable[PaperReference]) -> str:
        known = [reference for reference in some if reference.key in entries()]
        if not known:
            return ""
        if latex:
            return rf" \citep{{{','.join(reference.key for reference in known)}}}"
        return f" ({'; '.join(reference.text for reference in known)})"

    def listed(kind: str, specs: Sequence[str]) -> str:
        return joined([f"{shown(spec)}{cited(references(kind, spec))}" for spec in specs])

    real = [name for name in board.explainers if name != RANDOM]
    baseline = " and compared with random scores" if RANDOM in board.explainers else ""
    faithful = [metric for metric in board.metrics if metric not in board.plausible]
    models = dict.fromkeys(shown(each.model) for each in (board, *others))
    sizes = {
        each.data: f"{each.examples} {'example' if each.examples == 1 else 'examples'}" for each in (board, *others)
    }
    data = [f"{count} of {shown(name)}{cited(references('data', name))}" for name, count in sizes.items()]
    how = f" ({shown(board.setting)})" if board.setting else ""
    sentences = [
        f"Predictions of {joined([*models])} on {joined(data)}{how} were explained with "
        f"{listed('explainers', real)}{baseline}."
    ]
    if faithful:
        sentences.append(f"Explanations were measured with {listed('metrics', faithful)}.")
    if board.plausible:
        sentences.append(f"Agreement with human rationales was measured with {listed('metrics', board.plausible)}.")
    if board.seeds > 1:
        sentences.append(f"Scores are averaged over up to {board.seeds} seeds per example.")
    efron, holm = (cited([reference]) for reference in _STATISTICS)
    sentences.append(
        shown("Intervals are 95 % BCa bootstrap intervals over examples")
        + f"{efron}; explainers were compared by paired t-tests with Holm's correction{holm}."
    )
    if _checked(board):
        sentences.append(f"Whether erased inputs are in distribution was tested with MaSF{cited(_MASF)}.")
    own = r" \citep{troth}" if latex else ""
    sentences.append(f"All numbers were computed with troth {troth.__version__}{own}.")
    return " ".join(sentences)


_STATISTICS = (
    PaperReference("efron1987", "Efron, 1987"),
    PaperReference("holm1979", "Holm, 1979"),
)
_MASF = (PaperReference("haroush2022", "Haroush et al., 2022"), PaperReference("madsen2024", "Madsen et al., 2024"))


def _all(board: Leaderboard) -> list[PaperReference]:
    methods = [reference for _, papers in _methods(board) for reference in papers]
    return [*methods, *references("data", board.data), *_STATISTICS, *(_MASF if _checked(board) else ())]


def _methods(board: Leaderboard) -> Iterator[tuple[str, list[PaperReference]]]:
    """Every explainer and metric with its papers."""
    for kind, specs in (("explainers", board.explainers), ("metrics", board.metrics)):
        for spec in specs:
            yield spec, references(kind, spec)


def _checked(board: Leaderboard) -> bool:
    return any(stamp.p is not None for stamp in board.stamps.values())
