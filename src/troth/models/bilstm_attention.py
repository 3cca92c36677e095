"""A bidirectional LSTM with additive attention over one text, or over the first of two (Jain & Wallace, 2019), as the
ROAR paper trains it. The attention it gives is α: how much each word of the first text is attended to; begin, end and
padding tokens get none (section 4 of the paper). A text without any word left is attended to at those tokens instead.

A pair is one packed sequence whose token types tell the second text from the first; each has an LSTM of its own and the
second's final states are the query. Paper: one embedding for both texts; the released code gives each a copy
(`shared_embedding=False`). Importing this module makes the transformers Auto classes know the model.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from troth.models._changes import swapped


class BilstmAttentionConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """`hidden_size` is that of one direction; `pair` is the form for two texts."""

    model_type = "bilstm_attention"

    vocab_size: int = 5
    embedding_size: int = 300
    hidden_size: int = 128
    num_hidden_layers: int = 1
    pair: bool = False
    shared_embedding: bool = True
    pad_token_id: int | None = 0
    # Ids below this one get no attention. With 0, as in older folders, [CLS] and [EOS] get attention, too.
    first_attended_id: int = 0


class BilstmAttentionPreTrainedModel(PreTrainedModel):  # type: ignore[no-untyped-call]
    config_class = BilstmAttentionConfig
    base_model_prefix = "bilstm"

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.LSTM | nn.Embedding):
            module.reset_parameters()


class BilstmAttentionModel(BilstmAttentionPreTrainedModel):  # type: ignore[no-untyped-call]
    """Everything below the decoder: the attention-weighted context of the first text, and the query from the second."""

    def __init__(self, config: BilstmAttentionConfig) -> None:
        super().__init__(config)
        self.embeddings = _Embeddings(config)
        self.first = _Lstm(config.embedding_size, config.hidden_size)
        if config.pair:
            self.second = _Lstm(config.embedding_size, config.hidden_size)
            if not config.shared_embedding:
                self.second_embeddings = _Embeddings(config)
        self.attention = AdditiveAttention(2 * config.hidden_size, config.hidden_size, pair=config.pair)
        self.post_init()  # type: ignore[no-untyped-call]

    @property
    def reads_ids_beside_vectors(self) -> bool:
        """Whether ids are needed beside word vectors, to tell words from [CLS] and [EOS] and one text's embedding from
        the other's.
        """
        return bool(self.config.first_attended_id or self._has_two_embeddings)

    @property
    def _has_two_embeddings(self) -> bool:
        return bool(self.config.pair and not self.config.shared_embedding)

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: Any) -> None:
        self.embeddings.word_embeddings = value

    def forward(
        self, input_ids: Tensor | None, inputs_embeds: Tensor | None, real: Tensor, is_second: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor, tuple[Tensor, Tensor]]:
        """Returns context and query [rows, 2 hidden], α [rows, 1, 1, length] and the hidden states of real tokens."""
        vectors = self.embeddings(input_ids, inputs_embeds)
        if self.reads_ids_beside_vectors and input_ids is None:
            raise ValueError("this bilstm_attention needs input_ids beside inputs_embeds, to know its special tokens")
        if self._has_two_embeddings:
            assert input_ids is not None
            vectors = torch.where(is_second[..., None], self.second_embeddings(input_ids, None), vectors)
        in_first = real & ~is_second if self.config.pair else real
        states, _ = self._read(self.first, vectors, in_first)
        all_states, query = states, None
        if self.config.pair:
            query_states, query = self._read(self.second, vectors, real & is_second)
            all_states = states + query_states
        context, weights = self.attention(states, attended(self.config.first_attended_id, input_ids, in_first), query)
        return context, query, weights, (vectors, all_states)

    def _read(self, lstm: nn.LSTM, vectors: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """The states of the chosen tokens [rows, length, 2 hidden], 0 elsewhere, and the final states of both
        directions.
        """
        # The chosen tokens are moved to the front, wherever they are.
        order = torch.argsort((~chosen).to(torch.uint8), dim=1, stable=True)
        lengths = chosen.sum(1).clamp(min=1)
        order = order[:, : int(lengths.max())][..., None]
        front = vectors.gather(1, order.expand(-1, -1, vectors.shape[-1]))
        packed = pack_padded_sequence(front, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, (last, _) = lstm(packed)
        states, _ = pad_packed_sequence(states, batch_first=True)
        placed = states.new_zeros(*chosen.shape, states.shape[-1])
        placed = placed.scatter(1, order.expand(-1, -1, states.shape[-1]), states)
        return placed * chosen[..., None], torch.cat([last[0], last[1]], dim=-1)


class BilstmAttentionForSequenceClassification(BilstmAttentionPreTrainedModel):  # type: ignore[no-untyped-call]
    """The classifier: a linear decoder of the context; for pairs W·tanh(W₁·context + W₂·query)."""

    def __init__(self, config: BilstmAttentionConfig) -> None:
        super().__init__(config)
        self.num_labels = int(config.num_labels or 0)
        self.bilstm = BilstmAttentionModel(config)
        self.decoder = Decoder(2 * config.hidden_size, config.hidden_size, self.num_labels, pair=config.pair)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        tokens = input_ids if inputs_embeds is None else inputs_embeds
        if tokens is None:
            raise ValueError("bilstm_attention needs input_ids or inputs_embeds")
        if self.config.pair and token_type_ids is None:
            raise ValueError("a bilstm_attention for pairs needs token_type_ids: 0 in the first text, 1 in the second")
        everywhere = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        real = everywhere if attention_mask is None else attention_mask.bool()
        is_second = ~everywhere if token_type_ids is None else token_type_ids == 1
        context, query, weights, states = self.bilstm(input_ids, inputs_embeds, real, is_second)
        logits = self.decoder(context, query)
        loss: Any = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=states if output_hidden_states else None,
            attentions=(weights,) if output_attentions else None,
        )


def attended(first_attended_id: int, ids: Tensor | None, real: Tensor) -> Tensor:
    """[…, length] the tokens of a text that attention may choose from: its words, or all tokens if there is no word."""
    if ids is None:
        return real
    words = real & (ids >= first_attended_id)
    return torch.where(words.any(-1, keepdim=True), words, real)


class AdditiveAttention(nn.Module):
    """α = softmax(v · tanh(W h + b)), with a query v · tanh(W h + W₂ q); the context is Σ α h."""

    def __init__(self, states: int, size: int, *, pair: bool) -> None:
        super().__init__()
        self.states = nn.Linear(states, size, bias=not pair)
        if pair:
            self.query = nn.Linear(states, size, bias=False)
        self.score = nn.Linear(size, 1, bias=False)

    def forward(self, states: Tensor, chosen: Tensor, query: Tensor | None = None) -> tuple[Tensor, Tensor]:
        inner = self.states(states)
        if query is not None:
            inner = inner + self.query(query)[:, None]
        # The lowest finite number, so that a row without any token has a uniform α instead of NaN.
        scores = self.score(inner.tanh())[..., 0].masked_fill(~chosen, torch.finfo(states.dtype).min)
        # The returned tensor is the one that is used, so that gradients with respect to it exist.
        weights = scores.softmax(-1)[:, None, None]  # [rows, heads, queries, length]
        return (weights[:, 0] @ states)[:, 0], weights


class Decoder(nn.Module):
    """From the context (and the query) to the logits."""

    def __init__(self, states: int, size: int, classes: int, *, pair: bool) -> None:
        super().__init__()
        if pair:
            self.context = nn.Linear(states, size)
            self.query = nn.Linear(states, size)
        self.output = nn.Linear(size if pair else states, classes)

    def forward(self, context: Tensor, query: Tensor | None) -> Tensor:
        if query is not None:
            context = (self.context(context) + self.query(query)).tanh()
        logits: Tensor = self.output(context)
        return logits


class _Embeddings(nn.Module):
    """Word vectors, looked up or passed in; a separate layer so that its output can be hooked."""

    def __init__(self, config: BilstmAttentionConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)

    def forward(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        vectors: Tensor = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        return vectors


class _Lstm(nn.LSTM):
    """cuDNN has a backward pass for recurrent layers only in training mode, which changes nothing else here."""

    def __init__(self, vectors: int, size: int) -> None:
        super().__init__(vectors, size, batch_first=True, bidirectional=True)

    def forward(self, *inputs: Any) -> Any:
        with swapped(self, training=self.training or torch.is_grad_enabled()):
            return super().forward(*inputs)


AutoConfig.register("bilstm_attention", BilstmAttentionConfig, exist_ok=True)
AutoModelForSequenceClassification.register(
    BilstmAttentionConfig, BilstmAttentionForSequenceClassification, exist_ok=True
)
