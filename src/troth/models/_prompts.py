"""A prompt around a text: a template with {text}, {text_pair} and shots, wrapped in a chat template where wanted."""

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troth.core.errors import TrothError
from troth.core.types import Example
from troth.core.units import Span
from troth.data._classes import class_number, name_of

TEXT, PAIR, SHOTS = 0, 1, 2  # segments; shot i is segment SHOTS + i
_FIELD = re.compile(r"\{(text|text_pair|shots)\}")
# Characters for private use: no chat template changes them, and each field is recognized by its mark.
_MARK = re.compile("\ue000(\\d+)\ue001")
_EXAMPLE = "'Review: {text} Sentiment:'"

Part = tuple[int | None, str]  # (None, the prompt's own words), (TEXT, ""), (PAIR, "") or (SHOTS + i, shot i)


@dataclass(frozen=True)
class Filled:
    """A prompt with an example's texts in it, and where each segment stands."""

    text: str
    spans: dict[int, Span]


@dataclass(frozen=True)
class Template:
    """What stands around the texts, in order."""

    parts: tuple[Part, ...]

    @property
    def has_pair(self) -> bool:
        return any(segment == PAIR for segment, _ in self.parts)

    def fill(self, example: Example) -> Filled:
        """The prompt for one example; a pair and {text_pair} go together."""
        if self.has_pair != (example.text_pair is not None):
            raise TrothError(
                f"example {example.id}: the prompt holds {{text_pair}}, but there is no second text"
                if self.has_pair
                else f"example {example.id}: there is a second text, but the prompt does not hold {{text_pair}}"
            )
        text, spans = "", {}
        for segment, words in self.parts:
            piece = {TEXT: example.text, PAIR: example.text_pair or ""}.get(-1 if segment is None else segment, words)
            if segment is not None:
                spans[segment] = (len(text), len(text) + len(piece))
            text += piece
        return Filled(text, spans)


class Tokens:
    """A tokenized prompt; what the tokenizer adds after it (an end token) is left out: a word is to follow."""

    def __init__(self, encoding: Any) -> None:
        added = np.array([number is None for number in encoding.sequence_ids], dtype=bool)
        count = len(added) - int(added[::-1].astype(np.int64).cumprod().sum())
        self.ids: list[int] = encoding.ids[:count]
        self.offsets = np.array(encoding.offsets[:count], dtype=np.int64).reshape(-1, 2)
        self.own = ~added[:count]

    def __len__(self) -> int:
        return len(self.ids)

    def inside(self, span: Span, free: np.ndarray[Any, Any] | bool = True) -> tuple[np.ndarray[Any, Any], list[Span]]:
        """Numbers of the tokens that overlap a span of characters, and the span of each, counted from its start."""
        (start, end), (starts, ends) = span, self.offsets.T
        empty = (starts == ends) & (starts >= start) & (starts < end)
        here = np.flatnonzero((((starts < end) & (ends > start) & (starts < ends)) | empty) & self.own & free)
        clipped = np.clip(self.offsets[here], start, end) - start
        return here, [(int(first), int(last)) for first, last in clipped]


def template(
    prompt: str, shots: Sequence[tuple[Example, str]] = (), tokenizer: Any = None, explain_shots: bool = False
) -> Template:
    """Parts of a prompt; each shot is (example, class word), a tokenizer wraps all in its chat template."""
    fields = [match[1] for match in _FIELD.finditer(prompt)]
    if "text" not in fields:
        raise TrothError(f"the prompt {prompt!r} holds no {{text}}; write it where the text goes: {_EXAMPLE}")
    for field in fields:
        if fields.count(field) > 1:
            raise TrothError(f"the prompt holds {{{field}}} {fields.count(field)} times; write it once")
    before, block = _apart(prompt)
    shown = [_shot(block, *shot) for shot in shots]
    if not shown:
        marked = _marked(before + block)
    elif "shots" in fields:
        marked = _marked(before + block, _marks(shown))
    else:
        marked = _marked(before) + _marks(shown) + _marked(block)
    if tokenizer is not None:
        message = [{"role": "user", "content": marked}]
        marked = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    return Template(_parts(marked, fields, shown, explain_shots))


def as_shots(shots: Iterable[Any], class_words: Sequence[str], labels: Sequence[str]) -> list[tuple[Example, str]]:
    """Examples, mappings of their fields or (text, label) pairs, each with the word of its class."""
    pairs = []
    for number, shot in enumerate(shots):
        if isinstance(shot, dict):
            shot = Example(**{"id": str(number), **shot})
        elif isinstance(shot, tuple | list) and len(shot) == 2:
            shot = Example(str(number), shot[0], label=shot[1])
        if not isinstance(shot, Example):
            raise TrothError(f"shot {number} is a {type(shot).__name__}; give an Example or (text, label)")
        pairs.append((shot, class_words[_class(shot, class_words, labels)]))
    return pairs


def _class(shot: Example, class_words: Sequence[str], labels: Sequence[str]) -> int:
    label = name_of(shot.label)
    for names in (labels, class_words):
        with contextlib.suppress(TrothError):
            if isinstance(label, str):
                return class_number(label, tuple(names))
    if re.fullmatch(r"\d+", str(label)) and int(str(label)) < len(class_words):
        return int(str(label))
    raise TrothError(
        f"shot {shot.id} has {'no label' if label is None else f'label {label!r}'}; "
        f"its label must be one of {', '.join(labels)} or an index"
    )


def _apart(prompt: str) -> tuple[str, str]:
    """The task, and the block that is repeated for every shot: from the line that holds the first text on."""
    first = next(match.start() for match in _FIELD.finditer(prompt) if match[1] != "shots")
    start = prompt.rfind("\n", 0, first) + 1
    shots = prompt.rfind("{shots}", 0, first)
    start = max(start, shots + len("{shots}")) if shots >= 0 else start
    return prompt[:start], prompt[start:]


def _shot(block: str, example: Example, word: str) -> str:
    filled = template(block.replace("{shots}", "")).fill(example).text
    return f"{filled}{'' if filled[-1:].isspace() else ' '}{word}"


def _marks(shown: Sequence[str]) -> str:
    return "".join(f"\ue000{SHOTS + number}\ue001\n\n" for number in range(len(shown)))


def _marked(text: str, shots: str = "") -> str:
    marks = {"text": f"\ue000{TEXT}\ue001", "text_pair": f"\ue000{PAIR}\ue001", "shots": shots}
    return _FIELD.sub(lambda match: marks[match[1]], text)


def _parts(marked: str, fields: Sequence[str], shown: Sequence[str], explain_shots: bool) -> tuple[Part, ...]:
    pieces = _MARK.split(marked)  # words, segment, words, segment, …, words
    segments = [int(piece) for piece in pieces[1::2]]
    wanted = [TEXT, *([PAIR] if "text_pair" in fields else []), *range(SHOTS, SHOTS + len(shown))]
    if sorted(segments) != wanted:
        raise TrothError("the tokenizer's chat template drops or repeats the message; pass chat=False")
    parts: list[Part] = [(None, pieces[0])]
    for number, words in zip(segments, pieces[2::2], strict=True):
        if number < SHOTS:
            parts.append((number, ""))
        else:
            parts.append((number if explain_shots else None, shown[number - SHOTS]))
        parts.append((None, words))
    joined: list[Part] = []
    for segment, words in parts:
        if segment is None and joined and joined[-1][0] is None:
            joined[-1] = (None, joined[-1][1] + words)
        elif segment is not None or words:
            joined.append((segment, words))
    return tuple(joined)
