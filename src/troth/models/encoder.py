"""Any Hugging Face sequence classifier: from a folder, a hub name, or in memory. It is never altered."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.memory import ran_out
from troth.core.types import Encoding, Example, Rows
from troth.core.units import UnitKind
from troth.models import _changes, _trial, families
from troth.models._encoding import encode, longest
from troth.models._heads import checked_threshold, meaning_of, names_of, pipeline_options, spec_of, with_meaning
from troth.models._loading import CLASSIFIER, Network, bring, fingerprint, first_line, is_pipeline, is_transformers
from troth.models._loading import know_own_models as know_own_models
from troth.models._sharing import lock_of
from troth.models.base import ERASING, Output, Segments, TextClassifier, refuse


class Encoder(TextClassifier):
    """Wraps a model and its tokenizer; every change it needs is made inside a context manager and put back."""

    kind = "a text classifier"
    loaded_with = "a folder, a hub name, or a model in memory and its tokenizer"
    options: ClassVar[tuple[str, ...]] = ("multi_label", "threshold")
    network: ClassVar[Network] = CLASSIFIER
    has_hidden_states = True

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        max_length: int | None = None,
        labels: Iterable[str] | None = None,
        multi_label: bool | None = None,
        threshold: float | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        if self.network is CLASSIFIER:
            self.outputs = meaning_of(model.config, name, multi_label)
            self.threshold = checked_threshold(name, self.outputs, threshold)
        self.labels = self.class_names(None if labels is None else tuple(labels))
        self.max_length = longest(model, tokenizer, max_length, name)
        # A decoder with a classification head reads the last position, which must not be padding.
        self.reads_last = self.reads_last or hasattr(model, "score")
        self._resting = False

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        return isinstance(source, str | Path) or is_transformers(source)

    @classmethod
    def load(
        cls, source: Any, *, tokenizer: Any = None, device: Any = None, dtype: Any = None, **options: Any
    ) -> TextClassifier:
        """From a folder, a hub name, an adapter, a pipeline or a model in memory."""
        if is_pipeline(source):
            options = pipeline_options(source, options)
        model, tokenizer, name = bring(source, tokenizer, cls.network, device=device, dtype=dtype)
        return cls(model, tokenizer, name=name, **options)

    @property
    def pads(self) -> bool:
        return not self.reads_last and _trial.pads(self)

    def class_names(self, labels: tuple[str, ...] | None) -> tuple[str, ...]:
        """The names of its classes: the user's, else its own."""
        return names_of(self.model.config, self.name, labels, self.outputs)

    @property
    def spec(self) -> dict[str, Any]:
        return spec_of(self.model.config, self.outputs, self.threshold)

    @property
    def columns(self) -> int:
        """How many numbers the network gives for a text."""
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        return torch.device(self.model.device)

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.model.dtype
        return dtype

    @cached_property
    def fingerprint(self) -> str:
        return with_meaning(fingerprint(self.model), self.outputs, self.threshold)

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        encodings = encode(self.tokenizer, examples, units, segments, self.max_length)
        for encoding in encodings:
            if len(encoding.ids):
                self._known_id(int(encoding.ids.max()))
        return encodings

    def _known_id(self, number: int) -> int:
        """A token's id, which the model has a vector for; a tokenizer of another model gives larger ones."""
        if number >= (vectors := len(self.embedding_matrix)):
            token = self.tokenizer.convert_ids_to_tokens(number)
            raise TrothError(
                f"{self.name}: its tokenizer gives {token!r} the id {number}, but the model has {vectors:,} word "
                "vectors; use the tokenizer it was trained with"
            )
        return number

    @cached_property
    def has_rms_norm(self) -> bool:
        return families.has_rms_norm(self.model)

    @property
    def mask_id(self) -> int:
        if self.tokenizer.mask_token_id is None:
            raise TrothError(f"{self.name} has no mask token; use masking delete, zero, pad or attention")
        return self._known_id(int(self.tokenizer.mask_token_id))

    @property
    def pad_id(self) -> int:
        if self.tokenizer.pad_token_id is None:
            raise TrothError(f"{self.name} has no padding token; use masking mask_token, delete, zero or attention")
        return int(self.tokenizer.pad_token_id)

    @property
    def filler_id(self) -> int:
        return int(self.tokenizer.pad_token_id or 0)

    @property
    def embedding_matrix(self) -> Tensor:
        weight: Tensor = self.model.get_input_embeddings().weight
        return weight

    @property
    def embedding_output_size(self) -> int:
        config = self.model.config
        own = config.model_type in families.OWN_EMBEDDING_SIZE
        return int(config.embedding_size if own else config.hidden_size)

    def embed(self, ids: Tensor) -> Tensor:
        vectors = self.model.get_input_embeddings()(ids)
        if not isinstance(vectors, Tensor):
            raise refuse(self.name, f"word vectors of its own kind ({self.model.config.model_type}) to read", ERASING)
        return vectors

    def inputs(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> dict[str, Any]:
        """What the transformers model is called with for these rows."""
        inputs: dict[str, Any] = {"output_attentions": attentions, "output_hidden_states": hidden}
        if rows.embeddings is not None:
            inputs["inputs_embeds"] = rows.embeddings
        if rows.embeddings is None or families.reads_ids_beside_vectors(self.model):
            inputs["input_ids"] = rows.ids
        if rows.token_types is not None:
            inputs["token_type_ids"] = rows.token_types
        steps = torch.arange(rows.ids.shape[1], device=rows.ids.device)
        if self.first_position is not None:
            # Derived from the ids, positions after a padding id in the text would shift.
            inputs["position_ids"] = (steps + self.first_position).expand_as(rows.ids)
        if self._has_global_attention:
            inputs["global_attention_mask"] = (steps == 0).long().expand_as(rows.ids)
        inputs["attention_mask"] = self._attention_mask(rows)
        return inputs

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        with self.at_rest(attentions=attentions), ExitStack() as changes:
            changes.enter_context(_changes.own_attention_type(self.model))
            if rows.output_factor is not None:
                changes.enter_context(_changes.scaled_output(self.model, self.name, rows.output_factor))
            if self.reads_last:
                changes.enter_context(_changes.no_padding_id(self.model.config))
            if attentions or hidden:
                changes.enter_context(_changes.unhooked(self.model))
            output = self.read(self._call(rows, self.inputs(rows, attentions=attentions, hidden=hidden)))
        if output.logits.shape != (len(rows), self.columns):
            shape = f"logits of shape {list(output.logits.shape)}" if output.logits.numel() else "no logits"
            raise TrothError(
                f"{self.name} gives {shape} for {len(rows)} texts and {self.columns} classes, so it is not a text "
                "classifier; load it with AutoModelForSequenceClassification"
            )
        if attentions and not _are_attention(output.attentions, rows):
            raise refuse(self.name, "attention weights from token to token to read", "use gradient or leave_one_out")
        return output

    def read(self, output: Any) -> Output:
        """What the network gave, in our terms."""
        logits, attentions, hidden = (getattr(output, name, None) for name in ("logits", "attentions", "hidden_states"))
        return Output(torch.empty(0) if logits is None else logits, tuple(attentions or ()), tuple(hidden or ()))

    def _call(self, rows: Rows, inputs: dict[str, Any]) -> Any:
        try:
            return self.model(**inputs)
        except _FAILURES as error:
            if ran_out(error):
                raise
            does = f"{self.name} ({self.model.config.model_type}) cannot"
            why = first_line(error) or type(error).__name__
            if rows.embeddings is not None:
                raise TrothError(f"{does} read word vectors: {why}; {ERASING}") from error
            raise TrothError(
                f"{does} read texts of {rows.ids.shape[1]} tokens: {why}; give load_model a function from texts to "
                "probabilities that calls it as it needs to be called"
            ) from error

    def bytes_per_row(self, length: int, *, backward: bool, attentions: bool) -> int:
        config = self.model.config
        hidden = config.hidden_size
        layers = config.num_hidden_layers if backward else 2
        heads = getattr(config, "num_attention_heads", 1)
        per_token = 4 * hidden * (18 if backward else 10) * layers
        scores = 4 * heads * length * layers if attentions or self._implementation == "eager" else 0
        return int(length * (per_token + (3 * scores if backward else scores)))

    @property
    def padding_worth(self) -> int:
        if self.device.type != "cpu":
            return 4096
        # A recurrent network walks through a batch step by step, which makes the batch's width cheap.
        return 32 if hasattr(self.model.config, "num_attention_heads") else 1024

    @contextmanager
    def at_rest(self, *, attentions: bool = False) -> Iterator[None]:
        """Evaluation mode, frozen parameters, and eager attention where its weights are read; put back afterwards.

        One thread at a time, whatever wrappers the model has: nobody may see what another changes.
        """
        with lock_of(self.model):
            needs_eager = attentions and self._implementation != "eager"
            with _changes.eager(self.model) if needs_eager else nullcontext():
                if self._resting:
                    yield
                    return
                self._resting = True
                try:
                    with _changes.frozen(self.model):
                        yield
                finally:
                    self._resting = False

    @property
    def _implementation(self) -> str:
        return str(getattr(self.model.config, "_attn_implementation", "eager"))

    @cached_property
    def first_position(self) -> int | None:
        """Where positions begin in models that derive them from ids; None where they just count."""
        return families.first_position(self.model)

    @cached_property
    def _has_global_attention(self) -> bool:
        return families.has_global_attention(self.model)

    def _attention_mask(self, rows: Rows) -> Tensor | dict[str, Tensor] | None:
        if rows.attention is None:
            return None if bool((rows.lengths == rows.ids.shape[1]).all()) else rows.real.long()
        config, length = self.model.config, rows.ids.shape[1]
        averages = families.averages_tokens(config)
        if config.model_type not in families.ADDITIVE_MASK or averages or self._implementation not in ("eager", "sdpa"):
            kind = f"{config.model_type}, {self._implementation} attention{', mean pooling' if averages else ''}"
            raise TrothError(f"{self.name} ({kind}) takes no additive attention mask; use masking zero, soft or delete")
        lowest = torch.finfo(self.dtype).min
        bias = rows.attention.to(self.dtype).clamp(min=lowest).masked_fill(~rows.real, lowest)
        everywhere = bias[:, None, None, :].expand(-1, 1, length, -1)
        if config.model_type not in families.WINDOWED_MASK:
            return everywhere
        steps = torch.arange(length, device=bias.device)
        outside = (steps[:, None] - steps).abs() > config.sliding_window
        return {"full_attention": everywhere, "sliding_attention": everywhere.masked_fill(outside, lowest)}


# What a model that cannot read its input raises; what it says is passed on.
_FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, LookupError, AssertionError)


def _are_attention(weights: tuple[Any, ...], rows: Rows) -> bool:
    """Whether each layer says how much of every token is attended to."""
    return bool(weights) and all(
        layer is not None and layer.dim() == 4 and (len(layer), layer.shape[-1]) == tuple(rows.ids.shape)
        for layer in weights
    )
