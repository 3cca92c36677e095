"""How similar two texts are to a bi-encoder: the cosine of their embeddings, each the pooled states of its own pass.

The value is explained as it is, between −1 and 1. A score says how much a word of the first text (with segments "both"
also of the second) makes the two more similar. Folders of sentence-transformers say how states are pooled (Reimers and
Gurevych, 2019); of any other encoder `pooling` says it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from troth.core import reading
from troth.core.errors import TrothError
from troth.core.hub import offline_where_unreachable
from troth.core.types import PROMPT, Encoding, Example, Rows
from troth.core.units import UnitKind
from troth.models._encoding import encode
from troth.models._folder_checks import file_of
from troth.models._loading import SENTENCES, quiet
from troth.models._row_edits import rearranged
from troth.models.base import Output, Segments, TextClassifier, check_choices, refuse
from troth.models.encoder import Encoder

POOLINGS = ("mean", "cls", "max")
_MODULES = ("Transformer", "Pooling", "Normalize")  # modules of sentence-transformers; normalizing changes no cosine


class Similarity(Encoder):
    """A transformers encoder with its tokenizer, and how its states are pooled into one embedding."""

    kind = "a bi-encoder"
    loaded_with = 'a folder of sentence-transformers, or an encoder and pooling="mean"'
    options = ("pooling",)
    network = SENTENCES
    outputs = "values"
    has_hidden_states = False
    takes_windows = False
    pads = True  # padding is masked and not pooled
    masks_padding = False  # a plain mask is enough

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        pooling: str = "mean",
        labels: Iterable[str] | None = None,
        **options: Any,
    ) -> None:
        if pooling not in POOLINGS:
            raise TrothError(f"pooling must be one of {', '.join(POOLINGS)}, not {pooling!r}")
        self.pooling = pooling
        super().__init__(model, tokenizer, name=name, labels=labels, **options)

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        return "pooling" in options or _is_sentence_transformer(source) or _modules(source) is not None

    @classmethod
    def load(cls, source: Any, **options: Any) -> TextClassifier:
        if _is_sentence_transformer(source):
            kinds = [type(module).__name__ for module in source]
            settings = _pooling_of(
                {name: getattr(source[1], name) for name in dir(source[1]) if "pooling_mode" in name}
            )
            _require_modules("the SentenceTransformer", kinds)
            own = {"tokenizer": source.tokenizer, "max_length": source.max_seq_length}
            options |= {name: value for name, value in own.items() if options.get(name) is None}
            return super().load(source[0].auto_model, **{"pooling": settings, **options})
        if (modules := _modules(source)) is not None:
            found, options = _settings(str(source), modules), dict(options)
            if options.get("max_length") is None:
                options["max_length"] = found.pop("max_length", None)
            return super().load(_place(str(source), modules), **{"pooling": found["pooling"], **options})
        return super().load(source, **options)

    def class_names(self, labels: tuple[str, ...] | None) -> tuple[str, ...]:
        if labels is not None and len(labels) != 1:
            raise TrothError(f"{self.name} returns one value, the similarity, but {len(labels)} labels were given")
        return labels or ("similarity",)

    @property
    def spec(self) -> dict[str, Any]:
        return {"pooling": self.pooling}

    @property
    def state(self) -> list[Any]:
        return [self.pooling]

    # Two texts in one row, distinguished by their token types

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        check_choices(units, segments)
        examples = list(examples)
        for example in examples:
            if example.text_pair is None:
                raise TrothError(
                    f"example {example.id} is one text; {self.name} compares two texts: pass a text_pair as well"
                )
        firsts = [Example(example.id, example.text) for example in examples]
        seconds = [Example(example.id, example.text_pair or "") for example in examples]
        kinds: tuple[UnitKind, UnitKind] = (units, units if isinstance(units, str) else "word")
        read = [
            encode(self.tokenizer, some, kind, "first", self.max_length)
            for some, kind in zip((firsts, seconds), kinds, strict=True)
        ]
        return [self._joined(*each, segments) for each in zip(examples, read[0], read[1], strict=True)]

    def _joined(self, example: Example, first: Encoding, second: Encoding, segments: Segments) -> Encoding:
        both = segments == "both"
        others = torch.where(second.units < 0, second.units, second.units + first.n_units if both else PROMPT)
        return Encoding(
            example,
            ids=torch.cat([first.ids, second.ids]),
            units=torch.cat([first.units, others]),
            unit_texts=(*first.unit_texts, *(second.unit_texts if both else ())),
            unit_spans=(*first.unit_spans, *(second.unit_spans if both else ())),
            unit_segments=(*first.unit_segments, *((1,) * second.n_units if both else ())),
            token_types=torch.cat([torch.zeros_like(first.ids), torch.ones_like(second.ids)]),
            truncated=first.truncated + (second.truncated if both else 0),
            unit_kind=first.unit_kind,
        )

    # The cosine

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        if attentions or hidden:
            raise refuse(
                f"{self.name}, which reads two texts apart,", "attentions or hidden states to read",
                "use leave_one_out, gradient or integrated_gradients",
            )  # fmt: skip
        return self.plain_forward(rows)

    def plain_forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        if rows.output_factor is not None:
            raise refuse(self.name, "one embedding layer for both texts", 'use at="word"')
        with self.at_rest():
            first, second = (self._embedding(self._side(rows, side)) for side in (0, 1))
        # Written as operations that deep_lift can follow one by one.
        sizes = (first * first).sum(1) * (second * second).sum(1)
        return Output(((first * second).sum(1) / sizes.clamp(min=1e-16).sqrt())[:, None])

    def _side(self, rows: Rows, side: int) -> Rows:
        """One of the two texts of each row."""
        assert rows.token_types is not None, "each row holds two texts"
        here = (rows.token_types == side) & rows.real
        lengths = here.sum(1)
        index = (~here).to(torch.uint8).argsort(dim=1, stable=True)[:, : max(1, int(lengths.max()))]
        own = rearranged(rows, index, lengths)
        assert own.token_types is not None
        types = torch.zeros_like(own.token_types) if "token_type_ids" in self.tokenizer.model_input_names else None
        return replace(own, ids=own.ids.where(own.real, self.filler_id), token_types=types)

    def _embedding(self, rows: Rows) -> Tensor:
        """[rows, hidden]"""
        changed = rows.embeddings is not None or rows.attention is not None
        of_row = None
        if not changed and len(rows) > 1:  # most rows leave one of the two texts unchanged, which is then read once
            known = torch.cat([rows.ids, rows.lengths[:, None]], dim=1)
            _, of_row = torch.unique(known, dim=0, return_inverse=True)
            first = torch.full((int(of_row.max()) + 1,), len(rows), device=of_row.device)
            first = first.scatter_reduce(0, of_row, torch.arange(len(rows), device=of_row.device), "amin")
            if len(first) < len(rows):
                nothing = torch.arange(rows.ids.shape[1], device=first.device).expand(len(first), -1)
                rows = rearranged(rows, nothing, rows.lengths[first], first)
            else:
                of_row = None
        output = super()._call(rows, attentions=False, hidden=False)
        states = output.last_hidden_state.to(rows.ids.device)
        pooled = self._pooled(states, rows.real[..., None])
        return pooled if of_row is None else pooled[of_row]

    def _pooled(self, states: Tensor, real: Tensor) -> Tensor:
        single = states.to(torch.promote_types(states.dtype, torch.float32))
        if self.pooling == "cls":
            return single[:, 0]
        if self.pooling == "max":
            return single.masked_fill(~real, torch.finfo(single.dtype).min).amax(1)
        return (single * real).sum(1) / real.sum(1).clamp(min=1)


# Folders of sentence-transformers


def _is_sentence_transformer(source: Any) -> bool:
    return type(source).__name__ == "SentenceTransformer" and hasattr(source, "tokenizer")


def _modules(source: Any) -> list[Any] | None:
    """The entries of modules.json in a folder or hub model."""
    if not isinstance(source, str | Path) or (not Path(source).is_dir() and str(source).count("/") != 1):
        return None
    try:
        with offline_where_unreachable(str(source)), quiet():
            path = file_of(str(source), "modules.json")
        modules = None if path is None else reading.parse_json(reading.content(path, reading.DATA))
    except (TrothError, OSError, ValueError):
        return None
    return modules if isinstance(modules, list) and all(isinstance(each, Mapping) for each in modules) else None


def _settings(source: str, modules: list[Any]) -> dict[str, Any]:
    """The pooling of a folder, and the number of tokens it reads."""
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    _require_modules(source, kinds)
    pooling = next(module for module, kind in zip(modules, kinds, strict=True) if kind == "Pooling")
    found = {"pooling": _pooling_of(_read(source, f"{pooling.get('path', '')}/config.json"))}
    length = _read(source, "sentence_bert_config.json").get("max_seq_length")
    return found | ({"max_length": length} if isinstance(length, int) else {})


def _read(source: str, name: str) -> Mapping[str, Any]:
    path = file_of(source, name)
    try:
        found = {} if path is None else reading.parse_json(reading.content(path, reading.DATA))
    except ValueError:
        found = None
    if not isinstance(found, Mapping):
        raise TrothError(f"{source}: {name} is not a JSON object; save the model again with sentence-transformers")
    return found


def _place(source: str, modules: list[Any]) -> str:
    """The path of the transformer within a folder: older folders have it in a subfolder."""
    inner = str(modules[0].get("path") or "")
    return str(Path(source) / inner) if inner and Path(source).is_dir() else source


def _require_modules(name: str, kinds: list[str]) -> None:
    other = next((kind for kind in kinds if kind not in _MODULES), None)
    if other is not None or kinds[:2] != ["Transformer", "Pooling"]:
        raise TrothError(
            f"{name} is made of {', '.join(kinds)}; a transformer, its pooling and a normalization are supported: pass "
            "a function of two texts for others"
        )


def _pooling_of(settings: Mapping[str, Any]) -> str:
    """The pooling mode, as sentence-transformers writes it."""
    named = settings.get("pooling_mode")
    names = {"mean_tokens": "mean", "cls_token": "cls", "max_tokens": "max"}
    found = (
        [named]
        if isinstance(named, str)
        else [
            names.get(name.removeprefix("pooling_mode_"), name)
            for name, is_on in settings.items()
            if name.startswith("pooling_mode_") and is_on is True
        ]
    )
    if len(found) != 1 or found[0] not in POOLINGS:
        raise TrothError(
            f"its states are pooled by {' and '.join(map(str, found)) or 'nothing'}; supported are "
            f"{', '.join(POOLINGS)}"
        )
    return str(found[0])
