"""Guesses the columns of a table from their usual names, unless they are named, and makes examples from the rows.

A rationale, the marking of a human annotator, becomes character spans, whatever form it has.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from troth.core.errors import TrothError
from troth.core.reading import parse_json
from troth.core.types import Example, LabelSet, is_unicode
from troth.core.units import Span
from troth.data._base import Data
from troth.data.sources.labels import are_sets, index_label_sets, index_labels
from troth.data.sources.readers import Table

# The usual names, most likely first. A question is the second text if there is another candidate for the first.
_USUAL = {
    "text": "text sentence sentence1 premise review content passage paragraph context document article tweet comment "
    "body text1 text_a question1 utterance question",
    "label": "label labels gold_label gold class target category sentiment classification y",
    "text_pair": "text_pair sentence2 hypothesis text2 text_b question2 question query",
    "rationale": "rationale rationales evidences",
    "id": "id idx guid uid example_id annotation_id",
}
_LONGEST = 500_000  # characters, about 128,000 tokens: no model reads more, and tokenizing megabytes takes minutes


@dataclass(frozen=True)
class Columns:
    """The names of columns: None = guess, empty = there is none."""

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    rationale: str | None = None
    id: str | None = None
    group: str | None = None  # never guessed; may also be one of the columns above


@dataclass(frozen=True)
class _Chosen:
    """A column: its role, its name (empty = none), and whether the name was guessed."""

    role: str
    name: str
    guessed: bool

    def values(self, table: Table) -> list[Any]:
        return [row.get(self.name) if self.name else None for row in table.rows]

    @property
    def note(self) -> str:
        return f"{self.role}: column {self.name!r}{' (guessed)' if self.guessed else ''}"


def to_data(table: Table, columns: Columns, labels: tuple[str, ...] = (), unlabelled: bool = False) -> Data:
    """The examples of a table; `labels` names its classes, `unlabelled` allows rows without a label."""
    chosen = _choose(table, columns)
    notes = list(table.notes)
    texts = _texts(table, chosen["text"])
    pairs, chosen["text_pair"] = _pairs(table, chosen["text_pair"], notes)
    ids, chosen["id"] = _ids(table, chosen["id"], notes)
    rationales, chosen["rationale"] = _rationales(table, chosen["rationale"], texts, notes)
    notes[:0] = [column.note for column in chosen.values() if column.name]
    gold: Sequence[int | LabelSet | None]
    if chosen["label"].name:
        names = labels or table.class_names.get(chosen["label"].name, ())
        values = chosen["label"].values(table)
        index: Any = index_label_sets if are_sets(values, names) else index_labels
        gold, labels, note = index(table.source, values, names, unlabelled)
        notes += [note] if note else []
    else:
        gold = [None] * len(texts)
        notes.append(f"label: none; columns: {_listed(table.columns)}")
    groups = _groups(table, chosen["group"])
    examples = [Example(*parts) for parts in zip(ids, texts, pairs, gold, rationales, groups, strict=True)]
    return Data(table.source, _shortened(examples, notes), labels, tuple(notes), table.split)


def _shortened(examples: list[Example], notes: list[str]) -> list[Example]:
    """Cuts texts that are longer than any model reads, and records that in the notes."""
    long = [max(len(example.text), len(example.text_pair or "")) for example in examples]
    if max(long, default=0) <= _LONGEST:
        return examples
    cut = sum(length > _LONGEST for length in long)
    texts = "1 text is" if cut == 1 else f"{cut:,} texts are"
    notes.append(f"{texts} cut to the first {_LONGEST:,} characters; the longest has {max(long):,}")
    return [
        replace(
            example,
            text=example.text[:_LONGEST],
            text_pair=None if example.text_pair is None else example.text_pair[:_LONGEST],
            rationale=None
            if example.rationale is None
            else tuple((start, min(end, _LONGEST)) for start, end in example.rationale if start < _LONGEST),
        )
        for example in examples
    ]


def _choose(table: Table, columns: Columns) -> dict[str, _Chosen]:
    given = {field.name: getattr(columns, field.name) for field in fields(columns)}
    for role, name in given.items():
        if name and name not in table.columns:
            option = role.replace("_", "-")
            raise TrothError(f"{table.source} has no column {name!r} (--{option}); columns: {_listed(table.columns)}")
    taken = {name for role, name in given.items() if name and role != "group"}
    chosen = {"group": _Chosen("group", given["group"] or "", guessed=False)}
    for role, usual in _USUAL.items():
        name = given[role]
        found = name if name is not None else _guess(table.columns, usual.split(), taken)
        taken.add(found)
        chosen[role] = _Chosen(role, found, guessed=name is None)
    if not chosen["text"].name:
        raise TrothError(f"{table.source} has no text column; columns: {_listed(table.columns)}; name it with --text")
    return chosen


def _guess(columns: Sequence[str], usual: Sequence[str], taken: set[str]) -> str:
    plain = {column.strip().lower(): column for column in reversed(columns) if column not in taken}
    return next((plain[name] for name in usual if name in plain), "")


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(column[:40].encode(errors="backslashreplace").decode() for column in columns[:12])
    return (shown or "none") + (", …" if len(columns) > 12 else "")


def _texts(table: Table, column: _Chosen) -> list[str]:
    values = column.values(table)
    for number, value in enumerate(values, start=1):
        if not isinstance(value, str):
            found = f"{column.name} is {type(value).__name__}" if value is not None else f"no {column.name}"
            raise TrothError(
                f"{table.source}: row {number} has no text ({found}); drop it or name another column with --text"
            )
    return values


def _pairs(table: Table, column: _Chosen, notes: list[str]) -> tuple[list[str | None], _Chosen]:
    values = column.values(table)
    texts = all(isinstance(value, str | None) for value in values)
    if column.guessed and len(values) > 1 and column.name and texts and len(set(values)) == 1:
        # ERASER asks the same question about every film, which is not a second text.
        notes.append(f"text_pair: none; column {column.name!r} is the same in every row")
        return [None] * len(values), _Chosen("text_pair", "", True)
    for number, value in enumerate(values, start=1):
        if not isinstance(value, str | None):
            kind = type(value).__name__
            raise TrothError(
                f"{table.source}: row {number}: {column.name} is {kind}, not text; pass --text-pair '' for none"
            )
    return values, column


def _ids(table: Table, column: _Chosen, notes: list[str]) -> tuple[list[str], _Chosen]:
    values = column.values(table)
    plain = bool(column.name) and all(isinstance(value, str | int) and value != "" for value in values)
    ids = [str(value) for value in values] if plain else []
    if plain and len(set(ids)) == len(values) and all(map(is_unicode, ids)):
        return ids, column
    if column.name and not column.guessed:
        raise TrothError(
            f"{table.source}: column {column.name!r} cannot be used as the id: a row has none, two rows have "
            "the same, or one is not valid "
            "Unicode"
        )
    if column.name:
        notes.append(f"id: the row's place; column {column.name!r} does not tell rows apart")
    return [str(place) for place in range(len(values))], _Chosen("id", "", column.guessed)


def _groups(table: Table, column: _Chosen) -> list[str | None]:
    values = column.values(table)
    for number, value in enumerate(values, start=1):
        if column.name and (value is None or str(value).strip() == ""):
            raise TrothError(f"{table.source}: row {number} has no {column.name} (--group); fill it in or drop the row")
    return [None if value is None else str(value) for value in values]


def _rationales(
    table: Table, column: _Chosen, texts: list[str], notes: list[str]
) -> tuple[list[tuple[Span, ...] | None], _Chosen]:
    found: list[tuple[Span, ...] | None] = []
    for number, (value, text) in enumerate(zip(column.values(table), texts, strict=True), start=1):
        try:
            found.append(read_rationale(value, text))
        except ValueError as problem:
            if not column.guessed:
                raise TrothError(f"{table.source}: row {number}: {problem}") from None
            notes.append(f"rationale: none; column {column.name!r}, row {number}: {problem}")
            return [None] * len(texts), _Chosen("rationale", "", True)
    return found, column


def read_rationale(value: Any, text: str) -> tuple[Span, ...] | None:
    """Character spans from [[start, end], …] or from ERASER's groups of token offsets; a ValueError says what is
    wrong.
    """
    if isinstance(value, str):
        try:
            value = parse_json(value) if value.strip() else None
        except ValueError:
            raise ValueError("the rationale is text, not a list of [start, end]") from None
    if value is None:
        return None
    if not isinstance(value, Sequence):
        raise ValueError(f"the rationale is {type(value).__name__}, not a list of [start, end]")
    pieces = [piece for group in value for piece in (group if _is_group(group) else [group])]
    if pieces and all(isinstance(piece, dict) for piece in pieces):
        try:
            return token_spans(text, [(piece["start_token"], piece["end_token"]) for piece in pieces])
        except KeyError as problem:
            raise ValueError(f"a piece of the rationale has no {problem.args[0]}") from None
        except TypeError:
            raise ValueError("start_token and end_token of the rationale must be whole numbers") from None
    return tuple(_character_span(piece, text) for piece in pieces)


def token_spans(text: str, pieces: Iterable[tuple[int, int]]) -> tuple[Span, ...]:
    """Character spans of [start, end) ranges of white-space tokens; what overlaps is joined.

    An empty range marks nothing: ERASER's film reviews have twenty of them.

    >>> token_spans("a good film .", [(1, 3), (2, 4)])
    ((2, 13),)
    """
    tokens = [match.span() for match in re.finditer(r"\S+", text)]
    spans: list[Span] = []
    for start, end in sorted(pieces):
        if not 0 <= start <= end <= len(tokens):
            raise ValueError(f"the rationale names tokens {start} to {end}, but the text has {len(tokens)}")
        if start == end:
            continue
        first, last = tokens[start][0], tokens[end - 1][1]
        if spans and first < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    return tuple(spans)


def _is_group(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(piece, dict) for piece in value)


def _character_span(piece: Any, text: str) -> Span:
    if not isinstance(piece, list | tuple) or len(piece) != 2 or not all(type(edge) is int for edge in piece):
        raise ValueError(f"{str(piece)[:40]!r} in the rationale is not a [start, end]")
    start, end = piece
    if not 0 <= start < end <= len(text):
        raise ValueError(f"the rationale marks characters {start} to {end}, but the text has {len(text)}")
    return start, end
