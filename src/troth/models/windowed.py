"""A model that reads long texts in overlapping windows; its output for a text is the mean over the windows.

Each window holds as many tokens as the model reads: special tokens or prompt, the second text, and a part of the first.
Erasing and gradients refer to the mean, so a word in two windows counts in both.
"""

import copy
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from troth.core import arguments
from troth.core.errors import TrothError, unknown
from troth.core.hashing import digest
from troth.core.types import Encoding, Example, Rows
from troth.core.units import UnitKind
from troth.models._changes import borrowed
from troth.models._prompts import SHOTS, TEXT
from troth.models._row_edits import rearranged
from troth.models.base import Output, Segments, TextClassifier, Wrapped
from troth.models.encoder import Encoder
from troth.models.prompted import Prompted

_ANY_LENGTH = 10**6
_MOST = 64  # windows that are read at a time if no gradients are needed
MERGES = ("mean_logits", "mean_probabilities", "max_logits")
# For some windows: the row of each, the positions of its tokens (-1: padding), and [windows, heads, width] per layer.
Weights = tuple[Tensor, Tensor, tuple[Tensor, ...]]


@dataclass(frozen=True)
class _Frame:
    """The tokens of a text that every window repeats around its part."""

    before: int
    behind: int
    erasable: int  # number of those after the part that are in units of the second text


class Windowed(Wrapped):
    """Wraps any model that reads tokens."""

    kind = "a model that reads windows"
    loaded_with = "windows=True with a model that reads tokens"
    options: ClassVar[tuple[str, ...]] = ("windows",)
    inner: Encoder
    model = None  # methods may not inspect its layers, since it reads windows
    has_hidden_states = False
    packs = False
    pads = True  # windows contain no padding of the batch
    padding_worth = 1 << 20
    reading_place = TextClassifier.reading_place

    def __init__(self, inner: TextClassifier, windows: bool | Mapping[str, Any] = True) -> None:
        if not isinstance(inner, Encoder):
            raise TrothError(
                f"windows need a model that reads tokens; {inner.name} is {inner.kind}: split the texts yourself"
            )
        if not inner.takes_windows:
            raise TrothError(
                f"windows need a model that classifies whole texts; {inner.name} is {inner.kind}: split the "
                "texts yourself"
            )
        if isinstance(inner, Prompted):
            more = inner.template.explains_pair or any((segment or 0) >= SHOTS for segment, _ in inner.template.parts)
            if more or TEXT in inner.template.frozen:
                raise TrothError("windows cover only the text; leave explain_parts and explain_shots out")
        self.inner, self.window = inner, inner.max_length
        if self.window >= _ANY_LENGTH:
            raise TrothError(f"{inner.name} reads texts of any length; leave windows out, or set max_length")
        self.stride, self.merge = settings_of(windows, self.window)
        if self.merge == "mean_probabilities" and self.outputs != "classes":
            raise TrothError(f"merge mean_probabilities is for classes that exclude each other; {self.name} has none")
        self._wide = copy.copy(inner)
        self._wide.max_length = _ANY_LENGTH
        self._frames: weakref.WeakKeyDictionary[Encoding, _Frame] = weakref.WeakKeyDictionary()

    @property
    def spec(self) -> dict[str, Any]:
        return {**self.inner.spec, "windows": {"stride": self.stride, "merge": self.merge}}

    @cached_property
    def fingerprint(self) -> str:
        return digest([self.inner.fingerprint, self.window, self.stride, self.merge])

    def identify(self, *, whole: bool = False) -> None:
        self.inner.identify(whole=whole)
        vars(self).pop("fingerprint", None)

    @property
    def notes(self) -> tuple[str, ...]:
        long = f"texts of more than {self.window} tokens are read in windows of {self.window}, {self.stride} apart"
        return (*self.inner.notes, f"{long}, merged by {self.merge.replace('_', ' ')}")

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        if segments == "both" and isinstance(self.inner, Prompted):
            raise TrothError("windows cover only the first text of a prompt; leave segments out")
        return self._wide.encode(examples, units, segments)

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        if hidden or (attentions and (self.reads_last or torch.is_grad_enabled())):
            raise self.lacks("hidden states or attention of a whole text", "use leave_one_out, gradient or attention")
        stretches = [self._windows(rows, row) for row in range(len(rows))]
        places = [(row, place) for row, several in enumerate(stretches) for place in several]
        row_of = torch.tensor([row for row, _ in places], device=rows.ids.device)
        logits: Tensor | None = None
        weights: list[Weights] = []
        for chosen in self._batches([len(place) for _, place in places]):
            part = [places[number][1] for number in chosen]
            origin = row_of[chosen]
            index, cut = self._cut(rows, origin, part)
            output = self.inner.forward(cut, attentions=attentions)
            if logits is None:
                logits = output.logits.new_zeros(len(places), output.logits.shape[1])
            logits = logits.index_copy(0, torch.tensor(chosen, device=logits.device), output.logits)
            if attentions:
                # Attention from the position that is classified.
                first = (layer[:, :, 0] for layer in output.attentions)
                weights.append((origin, index.masked_fill(~cut.real, -1), tuple(first)))
        assert logits is not None
        return Output(self._merged(logits, row_of, len(rows)), averaged(weights, rows) if attentions else ())

    def passes(self, rows: Rows) -> int:
        return sum(len(self._windows(rows, row)) for row in range(len(rows)))

    def _windows(self, rows: Rows, row: int) -> list[list[int]]:
        """The positions of each window's tokens in a row."""
        encoding, length = rows.encodings[row], int(rows.lengths[row])
        frame = self._frame(encoding)
        behind = frame.behind
        if frame.erasable:  # some of the second text may have been deleted
            first = encoding.unit_segments.index(1)
            behind += int((rows.units[row, :length] >= first).sum()) - frame.erasable
        content, room = length - frame.before - behind, self.window - frame.before - behind
        if room < self.stride and content > room:
            taken = frame.before + behind
            raise TrothError(
                f"example {encoding.example.id}: the tokens around the text take {taken} of {self.window} tokens, "
                f"which leaves less than a stride of {self.stride}; choose a smaller stride or a larger max_length"
            )
        return places_of(length, frame.before, behind, self.window, self.stride)

    def _frame(self, encoding: Encoding) -> _Frame:
        if encoding not in self._frames:
            tokens = self._own_tokens(encoding.example)
            second = torch.tensor([place == 1 for place in encoding.unit_segments] + [False])
            self._frames[encoding] = _Frame(*tokens, int(second[encoding.units.clamp(min=-1)].sum()))
        return self._frames[encoding]

    def _own_tokens(self, example: Example) -> tuple[int, int]:
        """The number of tokens before and after the text."""
        if isinstance(self.inner, Prompted):
            filled = self.inner.template.fill(example)
            (tokens,) = self.inner._tokenize([filled.text])
            here, _ = tokens.inside(filled.spans[TEXT])
            return (int(here[0]), len(tokens) - int(here[-1]) - 1) if len(here) else (len(tokens), 0)
        with borrowed(self.tokenizer):
            batch = self.tokenizer(["a"], None if example.text_pair is None else [example.text_pair], verbose=False)
        numbers = batch.encodings[0].sequence_ids
        first = [place for place, number in enumerate(numbers) if number == 0]
        return first[0], len(numbers) - first[-1] - 1

    def _batches(self, lengths: list[int]) -> Iterator[list[int]]:
        """Indices of windows that are read together; of equal length if padding would change the output."""
        groups: dict[int, list[int]] = {}
        for number, length in enumerate(lengths):
            groups.setdefault(0 if self.inner.pads else length, []).append(number)
        for group in groups.values():
            step = len(group) if torch.is_grad_enabled() else _MOST
            yield from (group[start : start + step] for start in range(0, len(group), step))

    def _cut(self, rows: Rows, origin: Tensor, places: list[list[int]]) -> tuple[Tensor, Rows]:
        """[windows, width] the positions of the windows' tokens, and the windows as rows."""
        device, width = rows.ids.device, max(map(len, places))
        index = torch.tensor([[*place, *[0] * (width - len(place))] for place in places], device=device)
        lengths = torch.tensor([len(place) for place in places], device=device)
        cut = rearranged(rows, index, lengths, origin)
        ids, units = cut.ids.masked_fill(~cut.real, self.filler_id), cut.units.masked_fill(~cut.real, -1)
        return index, replace(cut, ids=ids, units=units)

    def _merged(self, logits: Tensor, row_of: Tensor, count: int) -> Tensor:
        """[windows, classes] -> [rows, classes]"""
        if self.merge == "max_logits":
            lowest = logits.new_full((count, logits.shape[1]), -torch.inf)
            return lowest.scatter_reduce(0, row_of[:, None].expand_as(logits), logits, "amax")
        values = logits.softmax(-1) if self.merge == "mean_probabilities" else logits
        windows = torch.bincount(row_of, minlength=count)[:, None]
        mean = values.new_zeros(count, values.shape[1]).index_add(0, row_of, values) / windows
        return mean.log() if self.merge == "mean_probabilities" else mean

    def bytes_per_row(self, length: int, *, backward: bool, attentions: bool) -> int:
        windows = 1 + max(0, -(-(length - self.window) // self.stride))
        each = self.inner.bytes_per_row(min(length, self.window), backward=backward, attentions=attentions)
        return windows * each

    def twin(self) -> Self:
        return type(self)(self.inner.twin(), {"stride": self.stride, "merge": self.merge})


def settings_of(windows: Any, window: int) -> tuple[int, str]:
    """Validates the user's stride and merging rule."""
    if windows is not True and not isinstance(windows, Mapping):
        raise TrothError(f'windows must be True or {{"stride": …, "merge": …}}, not {windows!r}')
    given = {} if windows is True else dict(windows)
    for name in given:
        if name not in ("stride", "merge"):
            raise unknown("setting of windows", str(name), ("stride", "merge"))
    stride, merge = given.get("stride", max(1, window // 2)), given.get("merge", MERGES[0])
    arguments.of_kind("the stride of windows", stride, int, "a whole number of tokens")
    if not 1 <= stride < window:
        raise TrothError(f"the stride of windows must be 1 to {window - 1}, less than a window, not {stride}")
    if merge not in MERGES:
        raise unknown("way to merge windows", str(merge), MERGES)
    return stride, merge


@lru_cache(maxsize=256)
def places_of(length: int, before: int, behind: int, window: int, stride: int) -> list[list[int]]:
    """The positions of each window's tokens; the last window ends with the text and is as long as the others."""
    content, room = length - before - behind, window - before - behind
    starts = [0]
    while starts[-1] + room < content:
        starts.append(min(starts[-1] + stride, content - room))
    ends = range(length - behind, length)
    return [[*range(before), *range(before + start, before + min(start + room, content)), *ends] for start in starts]


def averaged(weights: Sequence[Weights], rows: Rows) -> tuple[Tensor, ...]:
    """Attention from the classified position, [rows, heads, 1, length] per layer: the mean where windows overlap."""
    length = rows.ids.shape[1]
    layers = []
    for layer in range(len(weights[0][2])):
        heads = weights[0][2][layer].shape[1]
        total = weights[0][2][layer].new_zeros(len(rows) * (length + 1), heads)
        count = total.new_zeros(len(total), 1)
        for origin, index, parts in weights:
            flat = (origin[:, None] * (length + 1) + torch.where(index < 0, length, index)).flatten()
            values = parts[layer].transpose(1, 2).flatten(0, 1)  # [windows · width, heads]
            total.index_add_(0, flat, values)
            count.index_add_(0, flat, count.new_ones(len(flat), 1))
        mean = (total / count.clamp(min=1)).view(len(rows), length + 1, heads)[:, :length]
        layers.append(mean.transpose(1, 2)[:, :, None])
    return tuple(layers)
