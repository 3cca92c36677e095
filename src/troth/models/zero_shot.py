"""An NLI model asked whether a text entails "This example is urgent.": a classifier of any labels, without training.

As the zero-shot-classification pipeline: the entailment logits of all candidate labels are soft-maxed or, with
`multi_label`, each label's entailment is weighed against its contradiction alone. The model reads every erased text
once per label. The hypothesis is in no unit and in no erased input: it is put behind the text just before that is read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import PROMPT, Encoding, Example, Rows
from troth.core.units import UnitKind
from troth.models._changes import borrowed
from troth.models._heads import checked_threshold
from troth.models._loading import is_pipeline
from troth.models._row_edits import extended
from troth.models.base import Output, Segments, TextClassifier, check_choices, refuse
from troth.models.encoder import Encoder

TASK = "zero-shot-classification"
TEMPLATE = "This example is {}."


class ZeroShot(Encoder):
    """A sequence classifier trained on NLI, its tokenizer and the candidate labels."""

    kind = "a zero-shot classifier"
    loaded_with = "candidate_labels=[…]"
    options: ClassVar[tuple[str, ...]] = ("candidate_labels", "hypothesis_template", "multi_label", "threshold")
    has_hidden_states = False

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        candidate_labels: Sequence[str],
        hypothesis_template: str = TEMPLATE,
        multi_label: bool | None = None,
        threshold: float | None = None,
        **options: Any,
    ) -> None:
        self.candidate_labels = _checked(candidate_labels)
        self.hypothesis_template = _checked_template(hypothesis_template)
        super().__init__(model, tokenizer, **options)
        # As in the pipeline: a single label is compared with its contradiction, too.
        self.outputs = "labels" if multi_label or len(self.labels) == 1 else "classes"
        self.threshold = checked_threshold(self.name, self.outputs, threshold)
        self._entailment, self._contradiction = self.scored_columns()
        # All labels read the same part of the text, that of the longest hypothesis.
        self.max_length += len(self._hypotheses[0][0]) - self._longest

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        # A pipeline built directly from its class does not know its task.
        is_nli = is_pipeline(source) and hasattr(source, "entailment_id")
        return is_nli or "candidate_labels" in options

    @classmethod
    def load(cls, source: Any, **options: Any) -> TextClassifier:
        """Loads the sources of an Encoder; a pipeline may bring its labels and template."""
        made_with: dict[str, Any] = {}
        if is_pipeline(source):
            for params in ("_preprocess_params", "_postprocess_params"):
                made_with |= getattr(source, params, {})
            options = {name: made_with[name] for name in cls.options if name in made_with} | options
        if "candidate_labels" not in options:
            raise TrothError(f"a {TASK} pipeline needs labels to choose from: candidate_labels=['urgent', 'phone']")
        _checked(options["candidate_labels"])  # checked before the model is loaded
        return super().load(source, **{"multi_label": False, **options})  # regardless of the NLI model's own head

    def class_names(self, labels: tuple[str, ...] | None) -> tuple[str, ...]:
        if labels is not None and len(labels) != len(self.candidate_labels):
            raise TrothError(f"{len(self.candidate_labels)} candidate labels, but {len(labels)} labels were given")
        return self.candidate_labels if labels is None else labels

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "candidate_labels": list(self.candidate_labels),
            "hypothesis_template": self.hypothesis_template,
            "multi_label": self.outputs == "labels",
        }
        if self.labels != self.candidate_labels:
            spec["labels"] = list(self.labels)
        return spec | ({"threshold": self.threshold} if self.outputs == "labels" else {})

    @property
    def state(self) -> list[Any]:
        return [self.spec, self._entailment, self._contradiction]

    def scored_columns(self) -> tuple[int, int]:
        """The columns of the network for and against a label."""
        return _nli(self.name, self.model.config)

    @cached_property
    def _hypotheses(self) -> list[tuple[Tensor, Tensor | None]]:
        """For each label, the tokens that follow the text and its separators: ids and token types."""
        found = []
        for label in self.candidate_labels:
            with borrowed(self.tokenizer):
                batch = self.tokenizer(["text"], [self.hypothesis_template.format(label)], verbose=False)
            begin = batch.encodings[0].sequence_ids.index(1)
            types = batch["token_type_ids"][0][begin:] if "token_type_ids" in batch else None
            ids = torch.tensor(batch["input_ids"][0][begin:], device=self.device)
            found.append((ids, None if types is None else torch.tensor(types, device=self.device)))
        return found

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        """Encodes each text without the hypothesis that follows it."""
        check_choices(units, segments)
        examples = list(examples)
        if pair := next((example for example in examples if example.text_pair is not None), None):
            raise TrothError(f"example {pair.id} has a second text; {self.name} reads the hypothesis there")
        hypothesis, end = self.hypothesis_template.format(self.candidate_labels[0]), -len(self._hypotheses[0][0])
        encodings = super().encode([replace(example, text_pair=hypothesis) for example in examples], units)
        return [
            replace(
                encoding,
                example=example,
                ids=encoding.ids[:end],
                units=encoding.units[:end],
                token_types=None if encoding.token_types is None else encoding.token_types[:end],
            )
            for encoding, example in zip(encodings, examples, strict=True)
        ]

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        if attentions or hidden:
            raise refuse(
                f"{self.name}, asked once per candidate label,", "attentions or hidden states to read",
                "use leave_one_out, gradient or integrated_gradients",
            )  # fmt: skip
        columns = []
        for ids, types in self._hypotheses:
            here = ids.to(rows.ids.device)
            logits = super().forward(_followed(rows, here, types, self)).logits
            entailed = logits[:, self._entailment]
            columns.append(entailed if self.outputs == "classes" else entailed - logits[:, self._contradiction])
        return Output(torch.stack(columns, dim=1))

    @property
    def columns(self) -> int:
        return int(self.model.config.num_labels)

    def bytes_per_row(self, length: int, *, backward: bool, attentions: bool) -> int:
        read = super().bytes_per_row(length + self._longest, backward=backward, attentions=attentions)
        return read * len(self.labels) if backward else read

    @property
    def _longest(self) -> int:
        return max(len(ids) for ids, _ in self._hypotheses)


def _followed(rows: Rows, ids: Tensor, types: Tensor | None, model: TextClassifier) -> Rows:
    """Inserts a hypothesis after each row's text, before the padding, unaffected by what was erased."""
    length = rows.ids.shape[1]
    places = torch.arange(length + len(ids), device=rows.ids.device)
    begin = rows.lengths[:, None]
    in_padding = torch.where(places < begin + len(ids), length + places - begin, places - len(ids))
    order = torch.where(places < begin, places, in_padding)  # [rows, length + more] of the row with the hypothesis

    def behind(own: Tensor, more: Tensor) -> Tensor:
        both = torch.cat([own, more], dim=1)
        return both.gather(1, order.reshape(*order.shape, *[1] * (own.dim() - 2)).expand_as(both))

    return extended(rows, model, ids, unit=PROMPT, lengths=rows.lengths + len(ids), join=behind, types=types)


def _nli(name: str, config: Any) -> tuple[int, int]:
    """The columns of entailment and contradiction, found as the pipeline does."""
    known = {str(label): int(index) for label, index in (getattr(config, "label2id", None) or {}).items()}
    entailment = next((index for label, index in known.items() if label.lower().startswith("entail")), None)
    if entailment is None:
        raise TrothError(
            f"{name} has no class called entailment ({', '.join(known) or 'none'}), so it is not an NLI model; use one "
            "trained on MNLI, or name its classes in config.label2id"
        )
    return entailment, -1 if entailment == 0 else 0


def _checked(candidate_labels: Any) -> tuple[str, ...]:
    if isinstance(candidate_labels, str):  # as the pipeline accepts them
        candidate_labels = [label.strip() for label in candidate_labels.split(",") if label.strip()]
    labels = tuple(candidate_labels)
    if not labels or not all(isinstance(label, str) and label.strip() for label in labels):
        raise TrothError(f"candidate_labels must be a list of words such as ['urgent', 'phone'], not {labels!r}")
    if len(set(labels)) < len(labels):
        raise TrothError(f"candidate_labels contains a label twice: {', '.join(labels)}")
    return labels


def _checked_template(template: Any) -> str:
    try:
        one, other = (template.format(label) for label in ("one", "other"))
    except (AttributeError, IndexError, KeyError, ValueError):
        one = other = ""
    if one == other:
        raise TrothError(
            f"hypothesis_template must contain {{}} where the label goes, as {TEMPLATE!r} does: {template!r}"
        )
    return str(template)
