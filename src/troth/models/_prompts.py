"""A prompt around a text: a template with {text}, {text_pair} and shots, inside a chat template if wanted."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troth.core.errors import TrothError, unknown
from troth.core.types import Example
from troth.core.units import Span
from troth.data._classes import class_number, name_of

TEXT, PAIR, SHOTS = 0, 1, 2  # segments; shot i is segment SHOTS + i, the system message and the task come after them
_FIELD = re.compile(r"\{(text|text_pair|shots)\}")
# Private-use characters: no chat template changes them, and each field is recognized by its mark.
_MARK = re.compile("\ue000(\\d+)\ue001")
_EXAMPLE = "'Review: {text} Sentiment:'"

# Marks where a role's message begins, in the template for an endpoint that receives messages.
_ROLE = re.compile("\ue002(\\w+)\ue003")

Part = tuple[int | None, str]  # (None, the prompt's own words), (TEXT, ""), (PAIR, "") or another segment's words


@dataclass(frozen=True)
class Filled:
    """A prompt filled with an example's texts, and the position of each segment."""

    text: str
    spans: dict[int, Span]


@dataclass(frozen=True)
class Template:
    """The words around the texts, in order."""

    parts: tuple[Part, ...]
    # TEXT or PAIR, if the parts to explain were named and these were not among them.
    frozen: frozenset[int] = frozenset()
    explains_pair: bool = False
    # Segments other than the texts that are divided into units; any other segment is one unit.
    divided: frozenset[int] = frozenset()
    written: int | None = None  # the segment of the model's own output, if that is explained, too

    @property
    def shown(self) -> tuple[Part, ...]:
        """The parts as a reader sees them."""
        return tuple((segment, _ROLE.sub("", words)) for segment, words in self.parts)

    @property
    def has_pair(self) -> bool:
        return any(segment == PAIR for segment, _ in self.parts)

    def fill(self, example: Example) -> Filled:
        """The prompt for one example; a pair requires {text_pair} and vice versa."""
        if self.has_pair != (example.text_pair is not None):
            raise TrothError(
                f"example {example.id}: the prompt contains {{text_pair}}, but there is no second text"
                if self.has_pair
                else f"example {example.id}: there is a second text, but the prompt does not contain {{text_pair}}"
            )
        text, spans = "", {}
        for segment, words in self.parts:
            piece = {TEXT: example.text, PAIR: example.text_pair or ""}.get(-1 if segment is None else segment, words)
            if segment is not None:
                spans[segment] = (len(text), len(text) + len(piece))
            text += piece
        return Filled(text, spans)

    def messages(self, texts: Mapping[int, str]) -> list[tuple[str, str]]:
        """(role, content) of each message, given the text of each segment; one message without a role if there are no
        roles.
        """
        messages = [("", "")]
        for segment, words in self.parts:
            for role, content in _by_role(words) if segment is None else [("", texts[segment])]:
                if role:
                    messages.append((role, content))
                else:
                    messages[-1] = (messages[-1][0], messages[-1][1] + content)
        return messages if messages[0] != ("", "") or len(messages) == 1 else messages[1:]


class Roles:
    """Stands in for a tokenizer and marks where each message begins, for an endpoint with its own chat template."""

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]], **_: Any) -> str:
        return "".join(f"\ue002{message['role']}\ue003{message['content']}" for message in messages)


def _by_role(words: str) -> Iterator[tuple[str, str]]:
    first, *pieces = _ROLE.split(words)  # words, role, words, role, …, words
    yield "", first
    yield from zip(pieces[::2], pieces[1::2], strict=True)


class Tokens:
    """A tokenized prompt without the tokens that the tokenizer appends (an end token), because a word follows."""

    def __init__(self, encoding: Any) -> None:
        added = np.array([number is None for number in encoding.sequence_ids], dtype=bool)
        count = len(added) - int(added[::-1].astype(np.int64).cumprod().sum())
        self.ids: list[int] = encoding.ids[:count]
        self.offsets = np.array(encoding.offsets[:count], dtype=np.int64).reshape(-1, 2)
        self.own = ~added[:count]

    def __len__(self) -> int:
        return len(self.ids)

    def inside(self, span: Span, free: np.ndarray[Any, Any] | bool = True) -> tuple[np.ndarray[Any, Any], list[Span]]:
        """The indices of the tokens that overlap a span of characters, and each token's span relative to its start."""
        (start, end), (starts, ends) = span, self.offsets.T
        empty = (starts == ends) & (starts >= start) & (starts < end)
        here = np.flatnonzero((((starts < end) & (ends > start) & (starts < ends)) | empty) & self.own & free)
        clipped = np.clip(self.offsets[here], start, end) - start
        return here, [(int(first), int(last)) for first, last in clipped]


def template(
    prompt: str,
    shots: Sequence[tuple[Example, str]] = (),
    tokenizer: Any = None,
    explain_shots: bool = False,
    *,
    system: str | None = None,
    explain_parts: Sequence[str] | None = None,
    reasoning: str | None = None,
    continues: bool = False,
) -> Template:
    """Parts of a prompt; each shot is (example, class word), a tokenizer wraps all in its chat template.

    `reasoning` is what the model wrote before its answer: it stands behind the prompt, outside of all messages.
    `explain_parts` names what is explained: text, text_pair, system, task (the lines before those that are repeated
    for every shot), shots, or one of them ("shot 1"), reasoning, and of a continuation written: its own earlier tokens.
    The rest is frozen. By default that is the text alone.
    """
    fields = [match[1] for match in _FIELD.finditer(prompt)]
    if "text" not in fields:
        raise TrothError(f"the prompt {prompt!r} does not contain {{text}}; write it where the text goes: {_EXAMPLE}")
    for field in fields:
        if fields.count(field) > 1:
            raise TrothError(f"the prompt contains {{{field}}} {fields.count(field)} times; write it once")
    before, block = _apart(prompt)
    shown = [_shot(block, *shot) for shot in shots]
    task = before.partition("{shots}")[0].strip()
    own = {SHOTS + number: words for number, words in enumerate(shown)}
    names = {"text": [TEXT]} | ({"text_pair": [PAIR]} if "text_pair" in fields else {})
    names |= {f"shot {number + 1}": [SHOTS + number] for number in range(len(shown))}
    names |= {"shots": list(own)} if own else {}
    for name, words in (("system", system), ("task", task)):
        if words:
            names[name] = [SHOTS + len(own)]
            own[SHOTS + len(own)] = words
    if reasoning is not None:
        if not isinstance(reasoning, str) or not reasoning.strip():
            raise TrothError(f"reasoning must be a text, not {reasoning!r}; leave it out if there is none")
        names["reasoning"] = [SHOTS + len(own)]
        own[SHOTS + len(own)] = reasoning
    names |= {"written": [SHOTS + len(own)]} if continues else {}
    explained = _explained(explain_parts, names, explain_shots)
    start = before.replace(task, _mark(names["task"][0]), 1) if task else before
    shots_between = "" if "shots" in fields else "{shots}"
    marks = {"text": _mark(TEXT), "text_pair": _mark(PAIR)}
    marks["shots"] = "".join(f"{_mark(segment)}\n\n" for segment in names.get("shots", []))
    marked = _FIELD.sub(lambda match: marks[match[1]], start + shots_between + block)
    marked = _in_messages(marked, _mark(names["system"][0]) if system else "", tokenizer)
    if reasoning is not None:
        marked += f"{'' if marked[-1:].isspace() or reasoning[0].isspace() else ' '}{_mark(names['reasoning'][0])}"
    parts = _parts(marked, [TEXT, *([PAIR] if "text_pair" in fields else [])], own, explained)
    named = frozenset() if explain_parts is None else frozenset({TEXT, PAIR}) - explained
    written = next((number for number in names.get("written", []) if number in explained), None)
    return Template(parts, named, PAIR in explained, frozenset(names.get("reasoning", [])), written)


def _explained(parts: Sequence[str] | None, names: Mapping[str, list[int]], explain_shots: bool) -> set[int]:
    """The segments that are explained."""
    if parts is None:
        return {TEXT, *(names.get("shots", []) if explain_shots else [])}
    if explain_shots:
        raise TrothError(
            'explain_shots and explain_parts mean the same; leave explain_shots out: explain_parts=("shots",)'
        )
    if isinstance(parts, str) or not parts:
        raise TrothError(f'explain_parts must be names such as ("text", "shot 1"), not {parts!r}')
    for name in parts:
        if name not in names:
            raise unknown("part of this prompt", str(name), names)
    return {segment for name in parts for segment in names[name]}


def _in_messages(marked: str, system: str, tokenizer: Any) -> str:
    """A prompt after the system message, in the tokenizer's chat template if there is one."""
    if tokenizer is None:
        return f"{system}\n\n{marked}" if system else marked
    messages = [{"role": "user", "content": marked}]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except Exception as error:  # a chat template is a program of its author's
        if not system:
            raise
        raise TrothError(
            f"the tokenizer's chat template takes no system message ({error}); write it into the prompt, or pass "
            "chat=False"
        ) from None


def as_shots(shots: Iterable[Any], class_words: Sequence[str], labels: Sequence[str]) -> list[tuple[Example, str]]:
    """Examples, mappings of their fields or (text, label) pairs, each with the class word of its label."""
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


def require_words(class_words: Sequence[str]) -> None:
    """Refuses class words that cannot be told apart."""
    if isinstance(class_words, str) or len(set(class_words)) < max(2, len(class_words)):
        given = f"not {class_words!r}" if class_words else "one per class; none are given"
        raise TrothError(f"with a prompt, class_words must be two or more different words (--class-words), {given}")


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
    """Separates the task from the block that is repeated for every shot, which begins with the line of the first
    text.
    """
    first = next(match.start() for match in _FIELD.finditer(prompt) if match[1] != "shots")
    start = prompt.rfind("\n", 0, first) + 1
    shots = prompt.rfind("{shots}", 0, first)
    start = max(start, shots + len("{shots}")) if shots >= 0 else start
    return prompt[:start], prompt[start:]


def _shot(block: str, example: Example, word: str) -> str:
    filled = template(block.replace("{shots}", "")).fill(example).text
    return f"{filled}{'' if filled[-1:].isspace() else ' '}{word}"


def _mark(segment: int) -> str:
    return f"\ue000{segment}\ue001"


def _parts(marked: str, fields: Sequence[int], own: Mapping[int, str], explained: set[int]) -> tuple[Part, ...]:
    pieces = _MARK.split(marked)  # words, segment, words, segment, …, words
    segments = [int(piece) for piece in pieces[1::2]]
    if sorted(segments) != sorted([*fields, *own]):
        raise TrothError("the tokenizer's chat template drops or repeats the message; pass chat=False")
    parts: list[Part] = [(None, pieces[0])]
    for number, words in zip(segments, pieces[2::2], strict=True):
        is_frozen = number in own and number not in explained
        parts += [(None if is_frozen else number, own.get(number, "")), (None, words)]
    joined: list[Part] = []
    for segment, words in parts:
        if segment is None and joined and joined[-1][0] is None:
            joined[-1] = (None, joined[-1][1] + words)
        elif segment is not None or words:
            joined.append((segment, words))
    return tuple(joined)
