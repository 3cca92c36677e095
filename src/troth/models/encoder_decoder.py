"""Why an encoder-decoder (BART, T5) wrote what it wrote: its log-probability is explained.

The text goes to the encoder. Column 0 is the log-probability of the whole continuation, the sum of the further columns:
those of its tokens, each given the text and the tokens before it; special tokens, such as the end of the text, are not
counted. With `generate` each text's continuation is what the model writes itself, greedily. The decoder reads the same
tokens whatever is erased of the text, and they are in no unit, so they get no score.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from troth.core.errors import TrothError
from troth.core.types import Encoding, Example, Rows
from troth.core.units import UnitKind
from troth.models._changes import borrowed
from troth.models._loading import SEQ2SEQ, is_encoder_decoder
from troth.models._prompt_reader import choose_mask
from troth.models._reading import brought_back
from troth.models._written import greedily, texts_of
from troth.models.base import Output, Segments, TextClassifier, refuse
from troth.models.continuation import WHOLE, require_one
from troth.models.encoder import Encoder

SENTINEL = "<extra_id_0>"  # T5 has no mask token; it was trained to fill this one


class EncoderDecoder(Encoder):
    """Any transformers sequence-to-sequence model with its tokenizer, and a given or generated continuation."""

    kind = "an encoder-decoder's continuation"
    loaded_with = 'an encoder-decoder and continuation="…" (or generate=40)'
    options = ("continuation", "generate", "mask_text")
    network = SEQ2SEQ
    outputs = "values"
    continues = True
    has_hidden_states = False
    takes_windows = False
    masks_padding = False  # the decoder needs masks of its own

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        continuation: str | None = None,
        generate: int | None = None,
        mask_text: str | None = None,
        labels: Iterable[str] | None = None,
        **options: Any,
    ) -> None:
        require_one("{text}", continuation, generate)
        if labels is not None:
            raise TrothError("labels are names of classes, and a continuation has no classes; leave labels out")
        if model.get_output_embeddings() is None or not model.config.is_encoder_decoder:
            raise TrothError(
                f"{name} ({type(model).__name__}) does not generate text: pass an encoder-decoder "
                "(AutoModelForSeq2SeqLM)"
            )
        self.continuation, self.generate = continuation, generate
        super().__init__(model, tokenizer, name=name, **options)
        is_t5 = tokenizer.mask_token_id is None and SENTINEL in tokenizer.get_vocab()
        named = SENTINEL if is_t5 and mask_text is None else mask_text
        self._mask_id, self.mask_text, self.masked_by = choose_mask(name, tokenizer, named)
        if is_t5 and mask_text is None:
            self.mask_text, self.masked_by = None, f"{name} has no mask token: erased words become {SENTINEL}"
        self.prefix, self.ids = self._target(continuation or "text")
        self.ids = self.ids if continuation is not None else ()
        count = generate or len(self.ids)
        positions = int(getattr(model.config, "max_position_embeddings", None) or 0)
        if 0 < positions <= count + len(self.prefix):
            raise TrothError(f"the continuation takes {count} of the decoder's {positions} tokens; shorten it")
        self.labels = (WHOLE, *(texts_of(tokenizer, (), self.ids) or map(str, range(1, count + 1))))

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        return ("continuation" in options or "generate" in options) and is_encoder_decoder(source)

    @classmethod
    def load(cls, source: Any, **options: Any) -> TextClassifier:
        require_one("{text}", options.get("continuation"), options.get("generate"))
        return super().load(source, **options)

    def class_names(self, labels: tuple[str, ...] | None) -> tuple[str, ...]:
        return (WHOLE,)

    def labels_of(self, encoding: Encoding) -> tuple[str, ...]:
        return (WHOLE, *(text for _, text in encoding.written))

    @property
    def spec(self) -> dict[str, Any]:
        spec = {"continuation": self.continuation, "generate": self.generate, "mask_text": self.mask_text}
        return {name: value for name, value in spec.items() if value is not None}

    @property
    def state(self) -> list[Any]:
        return [self.prefix, self.ids or [self.generate, sorted(self._ends)], self._mask_id]

    @property
    def mask_id(self) -> int:
        return self._mask_id

    def ready(self, level: str, *, backward: bool) -> None:
        super().ready(level, backward=backward)
        if level == "attention":
            raise refuse(self.name, "one attention mask for encoder and decoder", "use masking zero, soft or delete")

    # The decoder's input and targets

    def _target(self, text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tokens before a continuation (the decoder's start token, perhaps a begin token), and its own tokens."""
        config, generation = self.model.config, getattr(self.model, "generation_config", None)
        begins = (getattr(each, "decoder_start_token_id", None) for each in (config, generation))
        start = next((number for number in begins if number is not None), None)
        if start is None:
            raise TrothError(f"{self.name} has no decoder_start_token_id; set it in its config")
        with borrowed(self.tokenizer):
            whole, bare = (
                self.tokenizer(text_target=text, add_special_tokens=special, verbose=False)["input_ids"]
                for special in (True, False)
            )
        places = range(len(whole) - len(bare) + 1)
        begin = next((place for place in places if whole[place : place + len(bare)] == bare), 0)
        return (int(start), *whole[:begin]), tuple(bare)

    @property
    def _ends(self) -> set[int]:
        named = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        ends = {self.tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])}
        return {int(number) for number in ends if number is not None}

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        encodings = super().encode(examples, units, segments)
        each = (self.ids or self._write(encoding) for encoding in encodings)
        return [
            replace(encoding, written=tuple(zip(ids, texts_of(self.tokenizer, (), ids), strict=True)))
            for encoding, ids in zip(encodings, each, strict=True)
        ]

    def _write(self, encoding: Encoding) -> Sequence[int]:
        """Generates a continuation for a text, greedily."""
        assert self.generate is not None
        begun = torch.tensor([self.prefix], device=self.device)
        with torch.no_grad(), self.at_rest():
            source = self.model.get_encoder()(input_ids=encoding.ids[None].to(self.device))
            written = greedily(
                lambda step, memory: self.model(
                    encoder_outputs=source, decoder_input_ids=step, past_key_values=memory, use_cache=True
                ),
                begun,
                self.generate,
                self._ends,
            )
        if not written:
            raise TrothError(
                f"example {encoding.example.id}: {self.name} generates nothing, since its first token ends "
                "the text; pass the "
                "continuation that you want explained"
            )
        return written

    def inputs(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> dict[str, Any]:
        written = [torch.tensor([*self.prefix, *(token for token, _ in each.written)]) for each in rows.encodings]
        read = pad_sequence(written, batch_first=True)[:, :-1].to(rows.ids.device)  # the last token has no successor
        inputs = super().inputs(rows, attentions=attentions, hidden=hidden)
        return {**inputs, "decoder_input_ids": read, "use_cache": False}

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        if attentions or hidden:
            raise refuse(
                self.name, "one position that decides: its answer has several tokens", "use gradient or leave_one_out"
            )
        return self.plain_forward(rows)

    def _call(self, rows: Rows, *, attentions: bool, hidden: bool) -> Any:
        output = super()._call(rows, attentions=attentions, hidden=hidden)
        return Output(self._values(brought_back(Output(output.logits), rows.ids.device).logits, rows))

    def _values(self, logits: Tensor, rows: Rows) -> Tensor:
        """[rows, columns] the log-probability of the whole and of each token, from [rows, length, vocabulary]."""
        written = [torch.tensor([token for token, _ in each.written]) for each in rows.encodings]
        ids = pad_sequence(written, batch_first=True).to(logits.device)
        lengths = torch.tensor([len(each) for each in written], device=logits.device)
        single = torch.promote_types(logits.dtype, torch.float32)
        said = logits[:, len(self.prefix) - 1 :].to(single).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        said = torch.where(torch.arange(ids.shape[1], device=ids.device) < lengths[:, None], said, 0)
        said = torch.nn.functional.pad(said, (0, len(self.labels) - 1 - said.shape[1]))
        return torch.cat([said.sum(1, keepdim=True), said], dim=1)

    def bytes_per_row(self, length: int, *, backward: bool, attentions: bool) -> int:
        count = len(self.prefix) + len(self.labels)
        said = 4 * count * int(self.model.config.vocab_size) * (3 if backward else 2)
        return super().bytes_per_row(length + count, backward=backward, attentions=attentions) + said
