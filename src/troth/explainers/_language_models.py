"""Instruction-tuned language models that are asked a question in words: on this machine, or behind an endpoint that
speaks OpenAI's chat protocol. The key comes from the environment and goes nowhere but into the request's header.
"""

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from troth.core.errors import TrothError

_LONGEST_PAUSE = 60.0


@dataclass(frozen=True)
class Endpoint:
    """Where a model is asked over HTTP, how patiently, and which environment variable holds the key."""

    url: str
    model: str
    key_variable: str
    timeout: float
    retries: int
    backoff: float

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise TrothError(f"endpoint must be a URL such as http://localhost:8000/v1, not {self.url!r}")
        if "@" in parts.netloc or parts.query:
            raise TrothError(
                "endpoint must hold no password and no query; put the key into an environment variable "
                "and name that one: key_variable=…"
            )

    def ask(self, question: str, most_tokens: int) -> str:
        """The model's answer; asks again, ever more slowly, when the server is busy, broken or silent."""
        for tried in range(self.retries + 1):
            try:
                return self._post(question, most_tokens)
            except urllib.error.HTTPError as error:
                problem, pause = f"answered {error.code} {error.reason}", _seconds(error.headers.get("Retry-After"))
                error.close()
                if error.code != 429 and error.code < 500:
                    hint = f"; is the key in {self.key_variable} right?" if error.code in (401, 403) else ""
                    raise TrothError(f"endpoint {self.url} {problem} for model {self.model!r}{hint}") from None
            except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
                reason, pause = getattr(error, "reason", error), 0.0
                slow = isinstance(reason, TimeoutError)
                problem = f"gave no answer within {self.timeout:g} s" if slow else f"cannot be reached ({reason})"
            if tried < self.retries:
                time.sleep(min(max(pause, self.backoff * 2**tried), _LONGEST_PAUSE))
        raise TrothError(
            f"endpoint {self.url} {problem}, {self.retries + 1} times; is the server up? or raise retries, timeout"
        )

    def _post(self, question: str, most_tokens: int) -> str:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": question}],
            "temperature": 0,
            "max_tokens": most_tokens,
        }
        headers = {"Content-Type": "application/json"}
        key = os.environ.get(self.key_variable)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        path = self.url.rstrip("/")
        path = path if path.endswith("/chat/completions") else f"{path}/chat/completions"
        request = urllib.request.Request(path, json.dumps(body).encode(), headers, method="POST")
        with _OPENER.open(request, timeout=self.timeout) as response:
            content = response.read()
        try:
            return str(json.loads(content)["choices"][0]["message"]["content"] or "")
        except (ValueError, LookupError, TypeError):
            raise TrothError(f"endpoint {self.url} does not answer as OpenAI's chat protocol says") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _seconds(text: str | None) -> float:
    """Retry-After as a number of seconds; a date counts as none."""
    return float(text) if text is not None and text.strip().isdigit() else 0.0


class Local:
    """A causal language model on this machine; answers are the likeliest ones."""

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
        # Some tokenizers give token types, which decoders do not read.
        wanted = {key: inputs[key] for key in ("input_ids", "attention_mask") if key in inputs}
        ends = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        with torch.no_grad():
            written = self.model.generate(
                **wanted, do_sample=False, temperature=None, top_p=None, top_k=None, pad_token_id=ends,
                max_new_tokens=min(most_tokens, room),
            )  # fmt: skip
        return str(tokenizer.decode(written[0, count:], skip_special_tokens=True))


Asking = Callable[[str, int], Future[str]]  # a question and the most tokens of its answer, which comes later


@lru_cache(maxsize=4)
def ask_local(name: str) -> Asking:
    """A model that is loaded once; one question at a time."""
    pool, model = ThreadPoolExecutor(1), Local(name)
    return lambda question, most_tokens: pool.submit(model.ask, question, most_tokens)


@lru_cache(maxsize=4)
def ask_endpoint(endpoint: Endpoint, parallel: int) -> Asking:
    """An endpoint that is asked several questions at a time."""
    pool = ThreadPoolExecutor(parallel)
    return lambda question, most_tokens: pool.submit(endpoint.ask, question, most_tokens)
