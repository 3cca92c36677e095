"""Code of the user's that raises, leaves or returns something else: one line with their place, and their traceback."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from functools import cache
from typing import ClassVar

import numpy as np
import pytest

import fakes
import troth as package
from troth.core.errors import TrothError
from troth.core.types import Attribution, Score
from troth.core.user_code import UserCodeError
from troth.engine.probes import Probe, keep_all
from troth.explainers import Explainer, SignedExplainer
from troth.maskings import Masking
from troth.metrics import Metric
from troth.store.store import Store

EXAMPLES = [package.Example(str(number), text) for number, text in enumerate(fakes.CORPUS[:4])]


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("not even this")

    __repr__ = __str__


RAISED = [
    ValueError("no luck"), KeyError("x"), ZeroDivisionError(), RuntimeError("two\nlines"), OSError(28, "disk"),
    AssertionError(), StopIteration(3), GeneratorExit(), SystemExit(0), SystemExit(3), SystemExit("words"),
    RecursionError("deep"), NotImplementedError(), BaseException("base"), UnprintableError(),
    UnicodeDecodeError("a", b"", 0, 1, "b"), TimeoutError(), BrokenPipeError(), ImportError("x"), StopAsyncIteration(),
]  # fmt: skip


@cache
def embedded():
    return package.load_model("embedded")


def line_of(call):
    with pytest.raises(TrothError) as error:
        call()
    assert "\n" not in str(error.value)
    return error.value


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_a_function_and_a_model_that_raise(error):
    def mine(text):
        raise error

    kind = type(error).__name__
    for call in (
        lambda: package.explain(embedded(), "a good film", mine, progress=False),
        lambda: package.explain(mine, "a good film", "leave_one_out", progress=False),
    ):
        found = line_of(call)
        assert str(found).startswith(f"mine raised {kind}")
        assert "(test_user_calls.py, line " in str(found)
        assert "'a good film'" in str(found) or "an empty text" in str(found) or "''" in str(found)
        assert "in mine" in found.trace
        assert "/troth/" not in found.trace
        assert found.__cause__ is error


def test_ctrl_c_stays_what_it_is():
    def mine(text):
        raise KeyboardInterrupt

    for model, method in (("embedded", mine), (mine, "leave_one_out")):
        with pytest.raises(KeyboardInterrupt):
            package.explain(model, "a good film", method, progress=False)


def test_running_out_of_memory_makes_batches_smaller():
    sizes = []

    def predict(texts):
        sizes.append(len(texts))
        if len(texts) > 3:
            raise MemoryError
        return [[0.5, 0.5]] * len(texts)

    package.explain(predict, "a good film is a good film", "leave_one_out", progress=False)
    assert max(sizes) > 3
    assert sizes[-1] <= 3


ANSWERS = [
    None, 3, "text", [], [[]], [0.5, 0.5], [["a", "b"]], [[0.5]], [[2.0, -1.0]], [[1, 2, 3]], {"a": 1}, object(),
    [[0.5, 0.5]] * 99, np.zeros((1, 2, 2)), [[None, None]], [[0.5, 0.5], [0.5]], iter([1]), [[1j, 0]],
]  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_a_model_that_answers_something_else(answer):
    def mine(texts):
        return answer

    assert "mine" in str(line_of(lambda: package.explain(mine, "a good film", "leave_one_out", progress=False)))


class Hostile:
    """Whatever is asked of it raises."""

    def __array__(self, *arguments, **options):
        raise SystemExit(5)

    def __len__(self):
        raise StopIteration

    def __iter__(self):
        raise GeneratorExit

    def __float__(self):
        raise KeyError("x")

    def tolist(self):
        raise SystemExit(7)


SCORES = [
    None, 3, "text", [1.0], [1.0] * 50, [float("nan")] * 3, ["a", "b", "c"], [1j, 1j, 1j], [1e300] * 3, Hostile(),
    [Hostile()] * 3, {"a": 1}, ([1, 2], [1]), (["nowhere"] * 3, [1, 2, 3]), ([(0, 99)] * 3, [1, 2, 3]),
    [(5, 1, 1.0)], object(),
]  # fmt: skip


@pytest.mark.parametrize("scores", SCORES, ids=range(len(SCORES)))
def test_a_function_that_returns_something_else(scores):
    def mine(text):
        return scores

    assert "mine" in str(line_of(lambda: package.explain(embedded(), "a good film", mine, progress=False)))


def test_functions_that_take_the_wrong_arguments():
    def keyword_only(*, text):
        return [1.0] * 3

    for function, said in [(lambda: 1, "takes 0 arguments"), (keyword_only, "takes 0 arguments")]:
        found = line_of(lambda given=function: package.explain(embedded(), "a good film", {"mine": given}))
        assert said in str(found)
    assert "mine raised TypeError" in str(
        line_of(lambda: package.explain(lambda: 1, "a good film", "leave_one_out")).args[0].replace("<lambda>", "mine")
    )


# --- classes


def explainer(body):
    """An explainer whose `ask` is the given function."""
    made = type("Mine", (Explainer,), {"ask": body, "signed": False, "__module__": __name__})
    return dataclasses.dataclass(frozen=True)(made)()


def not_a_generator(self, question):
    return [1.0]


def raises_at_once(self, question):
    raise StopIteration


def raises_later(self, question):
    yield Probe(question, keep_all(question))
    raise SystemExit(9)


def yields_nonsense(self, question):
    yield 3


def yields_a_wrong_shape(self, question):
    yield Probe(question, keep_all(question)[:, :1])


def returns_nothing(self, question):
    yield Probe(question, keep_all(question))


def returns_nonsense(self, question):
    yield Probe(question, keep_all(question))
    return [1.0]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (not_a_generator, "Mine.not_a_generator returned [1.0]; it must be a generator that yields a Probe"),
        (raises_at_once, "Mine.raises_at_once raised StopIteration (test_user_calls.py, line "),
        (raises_later, "Mine.raises_later raised SystemExit: 9 (test_user_calls.py, line "),
        (yields_nonsense, "Mine.yields_nonsense yielded 3; it must yield a Probe"),
        (yields_a_wrong_shape, "keep must be [rows, 3 units]"),
        (returns_nothing, "Mine.returns_nothing returned None; it must return an Attribution"),
        (returns_nonsense, "Mine.returns_nonsense returned [1.0]; it must return an Attribution"),
    ],
)
def test_explainers(ask, said):
    assert said in str(line_of(lambda: package.explain(embedded(), "a good film", explainer(ask), progress=False)))


@dataclasses.dataclass(frozen=True)
class Unready(SignedExplainer):
    def prepare(self, prober, encodings):
        raise SystemExit(4)

    def ask(self, question):
        yield from ()
        return Attribution(question, np.zeros(question.n_units), signed=True)


@dataclasses.dataclass(frozen=True)
class Refusing(Unready):
    width: int = 1

    def __post_init__(self):
        raise SystemExit(6)


@dataclasses.dataclass(frozen=True)
class Judge(Metric):
    higher_is_better: ClassVar[bool] = True

    def ask(self, question, attribution, explain):
        raise GeneratorExit
        yield


@dataclasses.dataclass(frozen=True)
class Wordy(Metric):
    higher_is_better: ClassVar[bool] = True

    def ask(self, question, attribution, explain):
        yield from ()
        return "good"


@dataclasses.dataclass(frozen=True)
class Eraser(Masking):
    level = "ids"

    def erase(self, rows, keep, model):
        raise SystemExit(8)


def test_explainers_metrics_and_maskings_that_raise_elsewhere():
    attributions = package.explain(embedded(), "a good film", "random", progress=False)
    for call, said in [
        (lambda: package.explain(embedded(), "a good film", Unready()), "Unready.prepare raised SystemExit: 4"),
        (lambda: package.explain(embedded(), "a good film", Refusing), "refusing raised SystemExit: 6"),
        (lambda: package.measure("embedded", attributions, Judge()), "Judge.ask raised GeneratorExit"),
        (lambda: package.measure("embedded", attributions, Wordy()), "Wordy.ask returned 'good'; it must return a"),
        (
            lambda: package.explain(embedded(), "a good film", "leave_one_out", masking=Eraser()),
            "Eraser.erase raised SystemExit: 8",
        ),
    ]:  # fmt: skip
        assert said in str(line_of(call))
    assert Score(1.0).value == 1.0


# --- the command line


CODE = """
    import sys
    import numpy as np
    count = 0

    def leaves(texts):
        sys.exit(3)

    def stops(texts):
        raise StopIteration

    def wrong(texts):
        return "text"

    def no_arguments():
        return 1

    def fails_at_37(texts):
        global count
        count += 1
        if count == 37:
            raise ValueError("the 37th call")
        return np.array([[0.3, 0.7] if "good" in text else [0.6, 0.4] for text in texts])

    fails_at_37.labels = ["no", "yes"]

    def mine(text):
        raise GeneratorExit("out")
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    root = tmp_path_factory.mktemp("code")
    (root / "code.py").write_text(textwrap.dedent(CODE))
    (root / "leaves.py").write_text("import sys\nsys.exit(99)\n")
    (root / "broken.py").write_text("def mine(:\n")
    rows = [{"id": str(number), "text": text, "label": number % 2} for number, text in enumerate(fakes.CORPUS)]
    (root / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return root


EXPLAIN = ["explain", "a good film", "-e"]
BENCH = ["bench", "-d", "data.jsonl", "--workers", "1", "--limit", "3", "--out", "new", "--metrics", "sparsity"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*EXPLAIN, "leave_one_out", "-m", "code.py:leaves"], "code.py:leaves raised SystemExit: 3 (code.py, line 7)"),
        ([*EXPLAIN, "leave_one_out", "-m", "code.py:stops"], "code.py:stops raised StopIteration (code.py, line 10)"),
        ([*EXPLAIN, "leave_one_out", "-m", "code.py:wrong"], "code.py:wrong returned something that is not"),
        ([*EXPLAIN, "leave_one_out", "-m", "code.py:no_arguments"], "code.py:no_arguments raised TypeError"),
        ([*EXPLAIN, "code.py:mine"], "mine raised GeneratorExit: out (code.py, line 28), called with example 0"),
        ([*EXPLAIN, "code.py:no_arguments"], "no_arguments takes 0 arguments"),
        ([*EXPLAIN, "leaves.py:mine"], "cannot be run: SystemExit: 99 (leaves.py, line 2)"),
        ([*EXPLAIN, "broken.py:mine"], "cannot be run: SyntaxError"),
        ([*EXPLAIN, "random", "-m", "leaves.py:predict"], "cannot be run: SystemExit: 99 (leaves.py, line 2)"),
        ([*BENCH, "-e", "random", "-m", "code.py:leaves"], "code.py:leaves raised SystemExit: 3"),
        ([*EXPLAIN, "random", "--model-option", "device=cpu"], "--model-option device=cpu: the device is chosen by"),
        ([*EXPLAIN, "random", "--model-option", "model=x"], "--model-option model=x: the model is named by --model"),
        ([*EXPLAIN, "random", "--model-option", "tokenizer=x"], "--model-option tokenizer=x: a tokenizer is read from"),
        ([*EXPLAIN, "random", "--model-option", "home=x"], "--model-option home=x"),
        ([*BENCH, "-e", "random", "--model-option", "device=cpu"], "--model-option device=cpu"),
        ([*BENCH, "-e", "random", "--model-option", "model=x"], "--model-option model=x"),
        ([*BENCH, "-e", "random", "--model-option", "tokenizer=x"], "--model-option tokenizer=x"),
        (["serve", "--port", "0", "--model-option", "device=cpu"], "--model-option device=cpu"),
    ],
    ids=range(18),
)
def test_on_the_command_line_their_line_is_named_and_nothing_is_written(troth, code, arguments, said):
    answer = troth(*arguments, room=code)
    assert (answer.code, answer.out) == (2, ""), answer
    assert [path for path in answer.written if "__pycache__" not in path] == []
    first, *trace = answer.err.splitlines()
    assert first.startswith("troth: ")
    assert said in first
    assert "src/troth" not in "".join(trace)
    assert not trace or trace[0] == "Traceback (most recent call last):"


def test_a_model_that_raises_at_the_37th_call_of_a_bench(troth, code, tmp_path):
    answer = troth(
        *["bench", "-m", "code.py:fails_at_37", "-d", "data.jsonl", "--workers", "1", "--out", str(tmp_path / "run")],
        *["-e", "leave_one_out,lime(samples=40),kernel_shap(samples=40),partition_shap", "--limit", "4"],
        *["--metrics", "comprehensiveness,sufficiency,log_odds,deletion,insertion,monotonicity,decision_flip"],
        room=code,
    )
    assert answer.code == 2, answer
    assert "Failed" in answer.out
    store = Store(tmp_path / "run")
    failed = store.failed()
    assert len(failed) == 1
    assert failed[0].error.startswith("code.py:fails_at_37 raised ValueError: the 37th call (code.py, line 22), called")
    assert 'raise ValueError("the 37th call")' in failed[0].traceback
    assert "troth/" not in failed[0].traceback
    planned = 1 + 5 + 5 * 7  # the data, explanations (random is added), metrics
    finished = {fact["name"] for segment in store.segments() for fact in segment.facts}
    assert len(finished) >= planned - 1 - 7 * (failed[0].kind == "explanation")
    assert isinstance(UserCodeError("x"), TrothError)
