"""Instruction-tuned language models that answer a question in words, on this machine or behind an endpoint with
OpenAI's chat protocol (see models/_endpoint.py).
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache

from troth.core.errors import TrothError
from troth.models._endpoint import Endpoint as Endpoint

_PROTOCOL = "OpenAI's chat protocol"


def _ask(endpoint: Endpoint, question: str, most_tokens: int) -> str:
    """The text that the model generates."""
    body = {
        "model": endpoint.model,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": most_tokens,
    }
    reply = endpoint.post("/chat/completions", body, _PROTOCOL)
    try:
        return str(reply["choices"][0]["message"]["content"] or "")
    except (LookupError, TypeError):
        raise endpoint.garbled(_PROTOCOL) from None


class Local:
    """A causal language model on this machine, with greedy decoding."""

    def __init__(self, name: str) -> None:
        from troth.models._loading import CAUSAL, bring

        self.name = name
        self.model, self.tokenizer, _ = bring(name, None, CAUSAL)
        self.model.eval()

    def ask(self, question: str, most_tokens: int) -> str:
        import torch

        tokenizer = self.tokenizer
        has_chat = bool(getattr(tokenizer, "chat_template", None))
        if has_chat:
            message = [{"role": "user", "content": question}]
            question = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        inputs = tokenizer(question, return_tensors="pt", add_special_tokens=not has_chat).to(self.model.device)
        count = inputs["input_ids"].shape[1]
        room = int(getattr(self.model.config, "max_position_embeddings", None) or 10**6) - count
        if room < 1:
            raise TrothError(f"{self.name} reads too little: the question alone has {count} tokens; use shorter texts")
        # Some tokenizers return token types, which decoders do not accept.
        wanted = {key: inputs[key] for key in ("input_ids", "attention_mask") if key in inputs}
        ends = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        with torch.no_grad():
            written = self.model.generate(
                **wanted, do_sample=False, temperature=None, top_p=None, top_k=None, pad_token_id=ends,
                max_new_tokens=min(most_tokens, room),
            )  # fmt: skip
        return str(tokenizer.decode(written[0, count:], skip_special_tokens=True))


# A question and the maximum number of tokens of its answer, which is a future.
Asking = Callable[[str, int], Future[str]]


@lru_cache(maxsize=4)
def ask_local(name: str) -> Asking:
    """A model that is loaded once and answers one question at a time."""
    pool, model = ThreadPoolExecutor(1), Local(name)
    return lambda question, most_tokens: pool.submit(model.ask, question, most_tokens)


@lru_cache(maxsize=4)
def ask_endpoint(endpoint: Endpoint, parallel: int) -> Asking:
    """An endpoint that answers several questions at a time."""
    pool = ThreadPoolExecutor(parallel)
    return lambda question, most_tokens: pool.submit(_ask, endpoint, question, most_tokens)
