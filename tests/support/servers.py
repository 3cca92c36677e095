"""A server on this machine that answers as OpenAI, vLLM and TGI do, or fails in the way that a test asks for."""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from troth.models import _endpoint

WORDS = {"awful": 3.0, "cold": 1.0, "dull": 2.0, "joy": -2.0, "good": -3.0}


def probability(prompt: str) -> float:
    """That the next word is "bad": a sum over the words of the prompt's last line but one, so order matters nowhere."""
    text = prompt.rpartition("Text:")[2]
    total = sum(weight for word, weight in WORDS.items() if word in text)
    return 1 / (1 + math.exp(-total)) * 0.9


def listed(prompt: str) -> dict[str, float]:
    """The likeliest tokens and their log-probabilities; " bad" is split over two spellings."""
    bad = probability(prompt)
    shares = {"bad": 0.75 * bad, " bad": 0.25 * bad, " good": 0.9 - bad, "The": 0.06, "?": 0.02}
    return {token: math.log(share) for token, share in shares.items()}


def log_probability(word, prompt):
    """Of a word after a prompt: of "bad" and "good" as above, of any other one always the same."""
    bad = probability(prompt)
    return math.log({"bad": bad, "good": 0.9 - bad}.get(word.strip(".,!"), 0.5))


def spelled(prompt):
    """Tokens of a prompt with their log-probabilities: what stands before its last line, then the letters of each word.

    What a word depends on is everything before the last line; its log-probability is spread evenly over its letters.
    """
    before, line = prompt[: prompt.rfind("\n") + 1], prompt[prompt.rfind("\n") + 1 :]
    tokens, numbers = ["<s>", before], [None, -50.0]
    for word in re.findall(r"\s*\S+\s*$|\s*\S+", line):
        tokens += word
        numbers += [log_probability(word.strip(), before) / len(word)] * len(word)
    return tokens, numbers


def written(prompt, seed=None):
    """What the server writes: the third sample is always different."""
    return "whatever" if seed == 2 else "bad soup" if "awful" in prompt else "good soup"


def prompt_of(body):
    if "messages" in body:
        return body["messages"][-1]["content"]
    return body.get("prompt", body.get("inputs"))


def chat(body):
    if "prompt_logprobs" in body:
        messages = [each["content"] for each in body["messages"]]
        tokens, numbers = spelled("\n".join(["\n".join(messages[:-1]), messages[-1]]))
        entries = [
            {str(place): {"decoded_token": token, "logprob": number}}
            for place, (token, number) in enumerate(zip(tokens, numbers, strict=True))
        ]
        return {"choices": [{"message": {"content": "x"}}], "prompt_logprobs": [None, *entries[1:]]}
    if not body.get("logprobs"):
        choice = {"message": {"content": written(prompt_of(body), body.get("seed"))}}
        return {"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 2}}
    top = [{"token": token, "logprob": number} for token, number in listed(prompt_of(body)).items()]
    choice = {"message": {"content": "bad"}, "logprobs": {"content": [{**top[0], "top_logprobs": top}]}}
    return {"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 1}}


def completions(body):
    prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
    choices = []
    for index, prompt in enumerate(prompts):
        if "logprobs" not in body:
            choices.append({"index": index, "text": written(prompt, body.get("seed"))})
            continue
        if body.get("echo") and "Good or bad?" not in prompt:
            tokens, numbers = spelled(prompt)
            found = {"tokens": [*tokens, "\n"], "token_logprobs": [*numbers, -9.0]}
        elif body.get("echo"):
            before, word = prompt.rsplit(" ", 1)
            pieces = [" ", *word]  # a token per letter; the word's whole log-probability is on them together
            logprob = math.log({"bad": probability(before), "good": 0.9 - probability(before)}[word])
            tokens = ["<s>", before, *pieces, "\n"]
            numbers = [None, -50.0, *[logprob / len(pieces)] * len(pieces), -9.0]
            found = {"tokens": tokens, "token_logprobs": numbers}
        else:
            found = {"top_logprobs": [listed(prompt)]}
        choices.append({"index": index, "text": "", "logprobs": found})
    usage = {"prompt_tokens": 10 * len(prompts), "completion_tokens": len(prompts)}
    return {"choices": choices[::-1], "usage": usage}  # in the wrong order


def generate(body):
    if body["parameters"].get("decoder_input_details"):
        tokens, numbers = spelled(body["inputs"])
        prefill = [{"id": 0, "text": token, "logprob": number} for token, number in zip(tokens, numbers, strict=True)]
        return {"generated_text": "x", "details": {"generated_tokens": 1, "prefill": prefill}}
    if not body["parameters"].get("details"):
        return [{"generated_text": written(body["inputs"], body["parameters"].get("seed"))}]
    top = [{"id": 0, "text": token, "logprob": number} for token, number in listed(body["inputs"]).items()]
    return {"generated_text": "bad", "details": {"generated_tokens": 1, "prefill": [], "top_tokens": [top]}}


ANSWERS = {"/v1/chat/completions": chat, "/v1/completions": completions, "/generate": generate}


class Server(ThreadingHTTPServer):
    """`plan` is what is done with each request in turn (a number is seconds of silence); then all are answered well."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, plan):
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan, self.seen, self.answered = list(plan), [], []
        self.held, self.most_held = 0, 0
        self.limit = None  # after so many answers all others wait
        self.lock = threading.Lock()
        self.free = threading.Event()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        server, raw = self.server, self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(raw)
        with server.lock:
            server.seen.append((self.path, dict(self.headers), body))
            step = server.plan.pop(0) if server.plan else None
            stopped = server.limit is not None and len(server.answered) >= server.limit
            if not stopped:
                server.answered.append(raw)
            server.held += 1
            server.most_held = max(server.most_held, server.held)
        try:
            if stopped:
                server.free.wait(60)
                return
            status, headers, content = self.step(step, body)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            pass  # the client did not wait
        finally:
            with server.lock:
                server.held -= 1

    def step(self, step, body):
        if isinstance(step, float):
            time.sleep(step)
        elif callable(step):
            step()
        elif step is not None:
            return step
        return 200, {}, json.dumps(ANSWERS[self.path](body)).encode()

    def log_message(self, *arguments):
        pass


@contextmanager
def serving(*plan):
    server = Server(plan)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.free.set()
        server.shutdown()
        server.server_close()
        thread.join()


def time_out(monkeypatch, number):
    """The client waits briefly for the answer to one request, and as long as it takes for all others."""
    numbers, ask = itertools.count(1), _endpoint._OPENER.open

    def ask_briefly(request, timeout):
        return ask(request, timeout=1.0 if next(numbers) == number else 60.0)

    monkeypatch.setattr(_endpoint._OPENER, "open", ask_briefly)


def failure(status, message="", **headers):
    return status, headers, json.dumps({"error": {"message": message}}).encode()
