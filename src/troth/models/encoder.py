"""Any Hugging Face sequence classifier, from a folder, a hub name, or memory; the user's model is never altered."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.hashing import digest
from troth.core.memory import ran_out
from troth.core.types import Encoding, Example, Rows
from troth.core.units import UnitKind
from troth.core.user_code import calling
from troth.models import _changes, _first_use, _identity, _placement, _reading, families
from troth.models._changes import lock_of
from troth.models._encoding import encode, longest
from troth.models._endpoint import is_url
from troth.models._heads import checked_threshold, meaning_of, names_of, pipeline_options, spec_of
from troth.models._loading import CLASSIFIER, Network, bring, is_pipeline, is_transformers
from troth.models.base import ERASING, Output, Segments, TextClassifier, refuse
from troth.models.fused import FusedEncoder, Precision, known_precision


class Encoder(TextClassifier):
    """Wraps a model and its tokenizer; every change is made inside a context manager and undone."""

    kind = "a text classifier"
    loaded_with = "a folder, a hub name, or a model in memory and its tokenizer"
    options: ClassVar[tuple[str, ...]] = ("multi_label", "threshold", "precision", *_placement.OPTIONS)
    network: ClassVar[Network] = CLASSIFIER
    has_hidden_states = True
    takes_windows: ClassVar[bool] = True  # long texts may be read in windows

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.options = tuple(dict.fromkeys((*cls.options, *_placement.OPTIONS)))  # every kind loads a network

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
        precision: Precision = "exact",
    ) -> None:
        _placement.require_readable(model, name)
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        if self.network is CLASSIFIER:
            self.outputs = meaning_of(model.config, name, multi_label)
            self.threshold = checked_threshold(name, self.outputs, threshold)
        self.labels = self.class_names(None if labels is None else tuple(labels))
        self.max_length = longest(model, tokenizer, max_length, name)
        self._resting = False
        self._identified: Any = None  # the state of the weights when the fingerprint was computed
        self.precision: Precision = known_precision(precision, model, name)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the fused encoder, which holds functions that cannot be pickled and is built again."""
        return {name: value for name, value in vars(self).items() if name != "_fused"}

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        return (isinstance(source, str | Path) and not is_url(source)) or is_transformers(source)

    @classmethod
    def load(
        cls, source: Any, *, tokenizer: Any = None, device: Any = None, dtype: Any = None, **options: Any
    ) -> TextClassifier:
        """From a folder, a hub name, an adapter, a pipeline or a model in memory."""
        if is_pipeline(source):
            options = pipeline_options(source, options)
        placing = {name: options.pop(name) for name in _placement.OPTIONS if name in options}
        model, tokenizer, name = bring(source, tokenizer, cls.network, device=device, dtype=dtype, **placing)
        return cls(model, tokenizer, name=name, **options)

    @property
    def call_convention(self) -> _reading.CallConvention:
        """How the network must be called."""
        if not self.network.tried:
            return _reading.CallConvention(first_position=self.first_position)
        return _first_use.call_convention(self)

    @cached_property
    def reads_last(self) -> bool:
        return self.call_convention.reads == "last"

    def reading_place(self, rows: Rows) -> Tensor | None:
        reads = "last" if self.reads_last else self.call_convention.reads
        if reads == "end":
            return _reading.end_place(rows, self.model.config.eos_token_id)
        return None if reads == "all" else super().reading_place(rows)

    @property
    def pads(self) -> bool:
        return _first_use.pads(self) and not self.reads_last

    @property
    def masks_padding(self) -> bool:
        """Whether we build the padding mask: transformers inspects a plain mask, which waits for the GPU."""
        on_gpu = self.device.type != "cpu" and self._implementation == "sdpa"
        return on_gpu and self.call_convention.width is None and _first_use.takes_attention_mask(self)

    def ready(self, level: str, *, backward: bool) -> None:
        if self.network.tried:
            _first_use.require(self, level, backward=backward)

    @cached_property
    def _fused(self) -> FusedEncoder:
        return FusedEncoder(self.precision)

    def class_names(self, labels: tuple[str, ...] | None) -> tuple[str, ...]:
        """The names of its classes: those given by the user, else the model's own."""
        return names_of(self.model.config, self.name, labels, self.outputs)

    @property
    def spec(self) -> dict[str, Any]:
        fast = {"precision": "fast"} if self.precision == "fast" else {}
        return spec_of(meaning_of(self.model.config), self.outputs, self.threshold) | fast

    @property
    def columns(self) -> int:
        """The number of outputs of the network for a text."""
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        return _placement.input_device(self.model)

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.model.dtype
        return dtype

    def twin(self) -> Self:
        if _placement.is_placed(self.model):
            raise TrothError(
                f"{self.name} is quantized or split over devices, so its weights cannot be changed here; "
                "load it without device_map and quantization"
            )
        return super().twin()

    @cached_property
    def fingerprint(self) -> str:
        self._identified = _identity.stamp(self.model), len(self.tokenizer)
        whole = [_identity.network(self.model), _identity.tokenizer(self.tokenizer)]
        head = [self.outputs, self.threshold if self.outputs == "labels" else None, list(self.labels)]
        # Results in another precision are those of another model and are never mixed.
        speed = "-fast" if self.precision == "fast" else ""
        return digest([self.network.auto, *whole, *head, self.max_length, self.state]) + speed

    @property
    def state(self) -> list[Any]:
        """Other values that the output depends on, such as a prompt and class words. Part of the fingerprint."""
        return []

    def identify(self, *, whole: bool = False) -> None:
        if "fingerprint" not in vars(self):
            return
        if whole:
            _identity.forget(self.model)
        if whole or self._identified != (_identity.stamp(self.model), len(self.tokenizer)):
            del vars(self)["fingerprint"]

    @property
    def notes(self) -> tuple[str, ...]:
        fast = ("precision fast: matrix products in bfloat16",) if self.precision == "fast" else ()
        return (*super().notes, *fast)

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        encodings = encode(self.tokenizer, examples, units, segments, self.max_length)
        if ids := [encoding.ids for encoding in encodings if len(encoding.ids)]:
            self._known_id(int(torch.cat(ids).max()))
        return encodings

    def _known_id(self, number: int) -> int:
        """A token's id, if the model has an embedding for it; the tokenizer of another model gives larger ids."""
        vectors = len(getattr(self._word_layer, "weight", ()))
        if 0 < vectors <= number:
            token = self.tokenizer.convert_ids_to_tokens(number)
            raise TrothError(
                f"{self.name}: its tokenizer gives {token!r} the id {number}, but the model has {vectors:,} word "
                "vectors; use the tokenizer it was trained with"
            )
        return number

    @cached_property
    def first_position(self) -> int | None:
        """The first position in networks that may derive positions from ids; None if positions are plain indices."""
        return families.first_position(self.model)

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
        weight = None if self._word_layer is None else _placement.weight_of(self._word_layer)
        if weight is None:
            raise refuse(self.name, f"word vectors to read ({self.model.config.model_type})", ERASING)
        return weight

    @property
    def _word_layer(self) -> Any:
        try:
            return self.model.get_input_embeddings()
        except NotImplementedError:  # raised by CANINE, which hashes characters
            return None

    @property
    def embedding_output_size(self) -> int:
        return _first_use.embedding_output_size(self)

    def embed(self, ids: Tensor) -> Tensor:
        vectors = self._word_layer(ids) if callable(self._word_layer) else None
        if not isinstance(vectors, Tensor):  # I-BERT quantizes its vectors
            raise refuse(self.name, f"word vectors to read ({self.model.config.model_type})", ERASING)
        return vectors

    def inputs(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> dict[str, Any]:
        """The arguments of the transformers model for these rows."""
        return _reading.inputs(self, rows, attentions=attentions, hidden=hidden)

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        if not attentions and not hidden:
            with self.at_rest():
                logits = self._fused.logits(self.model, rows, self._plain_logits)
            if logits is not None:
                return Output(logits)
        return self.plain_forward(rows, attentions=attentions, hidden=hidden)

    def plain_forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        """The forward pass of the transformers model itself, without the fused encoder."""
        with self.at_rest(attentions=attentions), ExitStack() as changes:
            changes.enter_context(_changes.own_attention_type(self.model))
            if rows.output_factor is not None:
                changes.enter_context(_changes.scaled_output(self.model, self.name, rows.output_factor))
            if self.call_convention.reads == "last":
                # A decoder classifies the last token that is not padding, and refuses batches without a padding id.
                # Rows have equal
                # lengths here, so every token counts, even a padding token within the text.
                changes.enter_context(_changes.swapped(self.model.config, pad_token_id=-1))
            if attentions or hidden:
                changes.enter_context(_changes.unhooked(self.model))
            wide = _reading.filled(self, rows, self.call_convention.width)
            output = self.read(self._call(wide, attentions=attentions, hidden=hidden))
        if output.logits.shape != (len(rows), self.columns):
            shape = f"logits of shape {list(output.logits.shape)}" if output.logits.numel() else "no logits"
            raise TrothError(
                f"{self.name} gives {shape} for {len(rows)} texts and {self.columns} classes, so it is not a text "
                "classifier; load it with AutoModelForSequenceClassification"
            )
        if attentions and not _reading.are_attention(output.attentions, wide):
            raise refuse(self.name, "attention weights from token to token to read", "use gradient or leave_one_out")
        output = _reading.brought_back(output, rows.ids.device)
        return _reading.cut(output, rows.ids.shape[1], wide.ids.shape[1])

    def read(self, output: Any) -> Output:
        """Converts the network's outputs; for an encoder-decoder, the cross-attention to the text and the decoder's
        states.
        """
        logits, attentions, hidden = (
            # GPT-2 returns an empty tuple of cross-attentions.
            next((found for name in names if (found := getattr(output, name, None)) is not None and len(found)), None)
            for names in (["logits"], ["cross_attentions", "attentions"], ["hidden_states", "decoder_hidden_states"])
        )
        return Output(torch.empty(0) if logits is None else logits, tuple(attentions or ()), tuple(hidden or ()))

    def _call(self, rows: Rows, *, attentions: bool, hidden: bool) -> Any:
        with calling(type(self.model).__name__, f"{len(rows)} rows", out_of_memory=False):
            try:
                inputs = self.inputs(rows, attentions=attentions, hidden=hidden)
                if (start := self.call_convention.decoder_start) is not None:
                    inputs = _reading.through_decoder(self, rows, inputs, start)
                return self.model(**inputs)
            except _reading.FAILURES as error:
                if ran_out(error):
                    raise
                raise _reading.refusal(self, rows, error) from error

    def bytes_per_row(self, length: int, *, backward: bool, attentions: bool) -> int:
        held = (11 if not attentions and self._fused.parts(self.model) is not None else 18) if backward else 10
        scores = attentions or self._implementation == "eager"
        return _reading.bytes_per_row(self.model.config, length, held, scores=scores, backward=backward)

    @property
    def padding_worth(self) -> int:
        if self.device.type != "cpu":
            return 4096
        # A recurrent network processes a batch step by step, which makes larger batches cheap.
        return 32 if hasattr(self.model.config, "num_attention_heads") else 1024

    @property
    def packs(self) -> bool:
        if self.device.type != "cpu":
            return False  # padding costs less than one more batch there, and is counted so
        with self.at_rest():
            return self._fused.reads(self.model, self.device, self._plain_logits) is not None

    def _plain_logits(self, rows: Rows) -> Tensor:
        return self.plain_forward(rows).logits

    @contextmanager
    def at_rest(self, *, attentions: bool = False) -> Iterator[None]:
        """Evaluation mode, frozen parameters, and eager attention if weights are read; restored afterwards.

        Only one thread at a time, whatever wrappers the model has, so that none sees the changes of another.
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
