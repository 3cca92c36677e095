"""Matches the classes of data with those of a model, by name, or by number if one side has no names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from troth.core.errors import TrothError
from troth.core.outputs import Outputs
from troth.core.types import Example, LabelSet
from troth.data._base import Data

Names = tuple[str, ...]
_SHOWN = 12  # names shown in an error
SORTED = "(words in sorted order)"  # part of a note on how words were numbered


class Label(int):
    """A class number that remembers the names of its data's classes, and whether somebody put these in order.

    >>> label = Label(1, ("neg", "pos"))
    >>> label, label.name, label == 1
    (1, 'pos', True)
    """

    names: Names
    ordered: bool  # False: words in sorted order, whose numbers mean nothing to a model

    def __new__(cls, number: int, names: Names = (), ordered: bool = True) -> Label:
        label = super().__new__(cls, number)
        label.names, label.ordered = names, ordered
        return label

    @property
    def name(self) -> str:
        return self.names[self] if self < len(self.names) else str(int(self))


def name_of(label: int | str | LabelSet | None) -> int | str | LabelSet | None:
    """A label as words if it has any, which another model understands; for a set of labels, each of them."""
    if isinstance(label, tuple):
        return tuple(label_name(each) for each in label)
    return None if label is None else label_name(label)


def label_name(label: int | str) -> int | str:
    """One label as words, if it has any."""
    return label.name if isinstance(label, Label) and label.names else label


def match_labels(data: Data, classes: Sequence[str], model: str, outputs: Outputs = "classes") -> Data:
    """The data with labels numbered like the model's classes; a label without a class in the model is an error.

    Names take precedence over numbers: {0: positive, 1: negative} and a csv of "neg" and "pos" agree. Numbers without
    names are kept. For a multi-label model, every example has a set of labels; a model that returns values has none.
    """
    model_names = tuple(classes)
    if outputs == "values":
        return without_labels(data)
    given = [_listed_labels(example.label) for example in data]
    words = tuple(sorted({label for labels in given for label in labels or () if isinstance(label, str)}))
    named = [None if labels is None else [_with_names(each, data.labels, words) for each in labels] for labels in given]
    if all(labels is None for labels in named) or not model_names:
        return data
    if outputs == "classes" and (sets := [example for example in data if isinstance(example.label, tuple)]):
        raise not_one_class(sets[0], model)
    try:
        numbers = [None if labels is None else [class_number(each, model_names) for each in labels] for labels in named]
    except TrothError as problem:
        ours = data.labels or tuple(sorted({str(label_name(each)) for labels in named for each in labels or ()}))
        raise TrothError(
            f"{data.name}: its labels ({_listed(ours)}) do not match the classes of {model} ({_listed(model_names)}): "
            f"{problem}; write the model's names or numbers as labels, name its classes (load_model(…, labels=…)), or "
            "leave the labels out (--label '')"
        ) from None
    if data.labels == model_names and outputs == "classes" and numbers == given:
        return data

    def numbered(places: list[int] | None) -> Label | tuple[Label, ...] | None:
        found = None if places is None else tuple(Label(place, model_names) for place in places)
        return found[0] if found and outputs == "classes" else found

    examples = [replace(example, label=numbered(places)) for example, places in zip(data, numbers, strict=True)]
    notes = [note for note in data.notes if not note.endswith(SORTED)]
    if len(notes) < len(data.notes):
        found = {
            str(label_name(each)): place
            for labels, places in zip(named, numbers, strict=True)
            for each, place in zip(labels or (), places or (), strict=True)
        }
        listed = [f"{number} = {name}" for name, number in sorted(found.items(), key=lambda pair: pair[1])]
        notes.append(f"labels: {_listed(listed)} (matched with the model's classes: {_listed(model_names)})")
    return replace(data, examples=examples, labels=model_names, notes=tuple(notes))


def not_one_class(example: Example, model: str) -> TrothError:
    """The error for a set of labels where exactly one class is expected."""
    held = example.label if isinstance(example.label, tuple) else ()
    shown = "|".join(str(label_name(each)) for each in held) or "none"
    return TrothError(
        f"example {example.id} has a set of labels ({shown}), but the classes of {model} exclude each other; give it "
        "one class, or load the model as a multi-label one (multi_label=True, --multi-label)"
    )


def without_labels(data: Data) -> Data:
    """The same texts without labels, for a model with other classes."""
    return replace(data, examples=[replace(example, label=None) for example in data], labels=())


def order_of(names: Sequence[str], classes: Sequence[str]) -> list[int] | None:
    """The class of each name; None if the two lists do not name the same classes one to one."""
    places = [place for place in _places(tuple(names), tuple(classes), ordered=True) if place is not None]
    return places if len(names) == len(classes) and sorted(places) == [*range(len(classes))] else None


def class_number(label: int | str, classes: Names) -> int:
    """The index of a label's class; the error names the label that has none, and the reason."""
    if isinstance(label, Label) and label.names:
        place, name = _places(label.names, classes, label.ordered)[label], label.name
    elif isinstance(label, str):
        (place,), name = _places((label,), classes, ordered=False), label
    else:
        place, name = _by_numeral(int(label), classes), str(int(label))
        if place is None:
            raise TrothError(f"there is no class {name}")
    if place is not None:
        return place
    alike = [classes[index] for index in _alike(name, classes)]
    if len(alike) == 1:
        raise TrothError(f"{name!r} and another label may both be {alike[0]}")
    raise TrothError(f"{name!r} may be {' or '.join(alike)}" if alike else f"no class is like {name!r}")


def _listed_labels(label: int | str | LabelSet | None) -> list[int | str] | None:
    return None if label is None else list(label) if isinstance(label, tuple) else [label]


def _with_names(label: int | str, names: Names, words: Names) -> int | str:
    if isinstance(label, str):
        return Label(words.index(label), words, ordered=False)
    if isinstance(label, Label) and label.names:
        return label
    return Label(label, names) if 0 <= label < len(names) else label


@lru_cache(maxsize=1024)
def _places(names: Names, classes: Names, ordered: bool) -> tuple[int | None, ...]:
    """The class of each name; None if there is none or more than one."""
    whole = [_only(_same(name, classes)) for name in names]
    # A prefix matches a class that no other name matches: "positive" and "positive (strong)" stay two classes.
    taken = {place for place in whole if place is not None}
    found = [
        place if place is not None else _only([other for other in _alike(name, classes) if other not in taken])
        for name, place in zip(names, whole, strict=True)
    ]
    meant = {(place, _plain(name)) for name, place in zip(names, found, strict=True) if place not in taken}
    claims = Counter(place for place, _ in meant)
    found = [None if claims[place] > 1 else place for place in found]
    if not any(place is not None for place in found):
        numbers = [_bare_number(name) for name in names]
        if None not in numbers:
            return tuple(number if number is not None and number < len(classes) else None for number in numbers)
        if ordered and [_bare_number(name) for name in classes] == list(range(len(names))):
            return tuple(range(len(names)))  # the model's classes have no names
    return tuple(found)


def _by_numeral(number: int, classes: Names) -> int | None:
    """A plain number counts from 0, unless the classes contain other numbers ("1 star" is class 0)."""
    numerals = [_numeral(name) for name in classes]
    if None not in numerals and len(set(numerals)) == len(classes) and number in numerals:
        return numerals.index(number)
    return number if 0 <= number < len(classes) else None


def _same(name: str, classes: Names) -> list[int]:
    exact = [index for index, known in enumerate(classes) if known == name]
    return exact or [index for index, known in enumerate(classes) if _plain(known) == _plain(name)]


def _alike(name: str, classes: Names) -> list[int]:
    """The classes of the same name or, if there are none, those that begin with it or with which it begins."""
    if same := _same(name, classes):
        return same
    plain = _plain(name)
    if plain.isdigit():
        return [index for index, known in enumerate(classes) if _numeral(known) == int(plain)]
    others = [_plain(known) for known in classes]
    begun = [index for index, known in enumerate(others) if plain and known.startswith(plain)]
    return begun or [index for index, known in enumerate(others) if known.isalpha() and plain.startswith(known)]


def _plain(name: str) -> str:
    """Letters and digits in lower case; "false" becomes "no" and "true" becomes "yes"."""
    plain = re.sub(r"[\W_]+", "", name.casefold()) or name
    return {"false": "no", "true": "yes"}.get(plain, plain)


def _numeral(name: str) -> int | None:
    """The number that a name is or begins with: 5 for "5" and "5 stars"."""
    found = re.fullmatch(r"(\d{1,9})(?:[\W_].*)?", name.strip())
    return None if found is None else int(found[1])


def _bare_number(name: str) -> int | None:
    """The number of a name that is nothing but a number: 0 for "0" and LABEL_0."""
    found = re.fullmatch(r"(?:label|class)?[\W_]*(\d{1,9})", name.strip(), re.IGNORECASE)
    return None if found is None else int(found[1])


def _only(places: Sequence[int]) -> int | None:
    return places[0] if len(places) == 1 else None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name[:40] for name in names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
