"""The function under test: how it is called, what it claims, and how close two results must be."""

from __future__ import annotations

import contextlib
import io
import random
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import torch

from troth.core.errors import TrothError, unknown
from troth.core.user_code import said, shown
from troth.refereeing.known import OF, PRODUCT, Of
from troth.refereeing.reading import NotReadableError, WordScores, numbers, read
from troth.refereeing.situations import Floats, Situation, Text, known

Attribute = Callable[[Any, Any, list[Any], int], Sequence[Any]]

# The claims, each with the claims that it implies.
_VALUES = ("linear", "dummy", "symmetry", "linearity")
CLAIMS: dict[str, tuple[str, ...]] = {
    "completeness": (),  # the scores sum to the class's value minus its value without any word
    "dummy": (),  # a word without effect gets 0
    "symmetry": (),  # two words with the same effect get the same score
    "linearity": (),  # the scores of a sum of models are the sums of the scores
    "linear": (),  # on a linear model each score is what the word adds
    "shapley": (*_VALUES, "completeness"),
    "leave_one_out": _VALUES,
    "integrated_gradients": (*_VALUES, "completeness"),
    "input_x_gradient": _VALUES,
    "class_free": (),  # the scores do not depend on the requested class (attention weights)
    "corpus": (),  # the scores depend on the other texts by definition (tf-idf)
    "model_free": ("class_free",),  # the scores do not depend on the model at all (a random baseline)
}
_STRICT, _LOOSE = 2e-3, 0.02  # shares of the largest score: for repeated calls, and for formulas
_SEEDS = 4


class ViolationError(Exception):
    """A property does not hold: what was expected, what the function returned, and the text that shows it."""

    def __init__(self, expected: str, got: str, text: Any = "") -> None:
        super().__init__(f"expected {expected}; got {got}")
        self.expected, self.got, self.text = expected, got, text


class DoesNotApplyError(Exception):
    """The function does not support this (it raised NotImplementedError), so there is nothing to check."""


class Subject:
    """A function `attribute(model, tokenizer, texts, target)` with its claims."""

    def __init__(
        self, function: Attribute, claims: Iterable[str] = (), of: str = "logit", tolerance: float = 0.0
    ) -> None:
        if not callable(function):
            raise TrothError(f"{shown(function)} is not a function attribute(model, tokenizer, texts, target)")
        self.function = function
        self.name = str(getattr(function, "__name__", type(function).__name__))
        declared = list(claims)
        for claim in declared:
            if claim not in CLAIMS:
                raise unknown("claim", str(claim), CLAIMS)
        self.claims = {*declared, *(more for claim in declared for more in CLAIMS[claim])}
        if of not in OF:
            raise unknown("explained value", str(of), OF)
        self.of: Of = of
        if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < 1:
            raise TrothError(f"tolerance must be a share of the largest score, from 0 to below 1, not {tolerance!r}")
        self.tolerance = float(tolerance)
        self.warned: list[str] = []  # those of the last call

    def call(self, place: Situation, texts: Sequence[Text], target: int = 1, *, seed: int | None = 0) -> Sequence[Any]:
        """The raw result; with a seed, the random generators are seeded, and restored afterwards."""
        with contextlib.ExitStack() as stack:
            caught = stack.enter_context(warnings.catch_warnings(record=True))
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            warnings.simplefilter("always")
            if seed is not None:
                stack.enter_context(seeded(seed))
            try:
                result = self.function(place.model, place.tokenizer, list(texts), target)
                result = result if isinstance(result, list | tuple) else list(result)
            except NotImplementedError as error:
                raise DoesNotApplyError(str(error) or "NotImplementedError") from None
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                raise ViolationError("scores", f"it raised {said(error)}", _one(texts)) from error
            self.warned = [str(warning.message) for warning in caught or ()]
        if len(result) != len(texts):
            raise ViolationError(f"{len(texts)} results for {len(texts)} texts", f"{len(result)}", _one(texts))
        return result

    def __call__(self, place: Situation, texts: Sequence[Text], target: int = 1, *, seed: int = 0) -> list[WordScores]:
        """Returns the scores of every text, one per word; all of them must be finite."""
        answers = []
        for text, result in zip(texts, self.call(place, texts, target, seed=seed), strict=True):
            try:
                answer = read(result, place, text)
            except NotReadableError as error:
                raise ViolationError("scores that belong to the text", str(error), text) from None
            if not (np.isfinite(answer.scores).all() and np.isfinite(answer.rest)):
                raise ViolationError("finite scores", f"{answer}, others {answer.rest:.4g}", text)
            answers.append(answer)
        return answers

    def known(self, *arguments: Any, **options: Any) -> Situation:
        """A model with known answers for what the function explains: logits, probabilities or their logarithms."""
        return known(self.of, *arguments, **options)

    @cached_property
    def spread(self) -> float:
        """How much the scores of one text differ between seeds, as a share of the largest: 0 without sampling."""
        if "model_free" in self.claims:
            return 0.0
        place = self.known(PRODUCT)
        try:
            runs = np.stack([self(place, ["not very good film plot"], seed=seed)[0].scores for seed in range(_SEEDS)])
        except (ViolationError, DoesNotApplyError):
            return 0.0
        return float(np.abs(runs - runs[0]).max() / max(np.abs(runs).max(), 1e-12))

    def same(self, wanted: Floats, got: Floats, *, least: float = 1e-5) -> bool:
        """Whether two results for the same input agree."""
        return self._near(wanted, got, _STRICT, least)

    def expect_same(
        self, wanted: WordScores, got: WordScores, text: Text, because: str, place: Situation | None = None
    ) -> None:
        """Requires that two results agree; `because` says why. A sampling method may differ as between seeds."""
        if wanted.scored == got.scored and self.same(wanted.scores, got.scores):
            return
        noise = 0.0 if place is None else self.noise(place, text)
        if wanted.scored != got.scored or np.abs(wanted.scores - got.scores).max(initial=0) > 4 * noise:
            raise ViolationError(f"{wanted} ({because})", str(got), text)

    def noise(self, place: Situation, text: Text) -> float:
        """How much the scores of a text differ between seeds."""
        runs = np.stack([self(place, [text], seed=seed)[0].scores for seed in range(_SEEDS)])
        return float(np.abs(runs - runs[0]).max(initial=0))

    def expect_values(self, wanted: Sequence[float] | Floats, got: WordScores, text: Text, because: str) -> None:
        """Requires that the scores are these numbers."""
        if not self._near(np.asarray(wanted, float), got.scores, max(_LOOSE, self.tolerance)):
            raise ViolationError(f"{numbers(wanted, got.words)} ({because})", str(got), text)

    def expect_number(self, wanted: float, got: float, scale: float, text: Text, because: str) -> None:
        if abs(wanted - got) > self._share(max(_LOOSE, self.tolerance)) * max(abs(scale), abs(wanted)):
            raise ViolationError(f"{wanted:.4g} ({because})", f"{got:.4g}", text)

    def _near(self, wanted: Floats, got: Floats, share: float, least: float = 0.0) -> bool:
        largest = max(np.abs(wanted).max(initial=0), np.abs(got).max(initial=0))
        return bool(np.abs(wanted - got).max(initial=0) <= self._share(share) * largest + least * (largest > 0))

    def _share(self, share: float) -> float:
        return share + min(4 * self.spread, 0.5)


def refuse(reason: str) -> NoReturn:
    """Reports that there is nothing to check for this function."""
    raise DoesNotApplyError(reason)


def _one(texts: Sequence[Text]) -> Any:
    return texts[0] if len(texts) == 1 else list(texts)


@contextlib.contextmanager
def seeded(seed: int) -> Any:
    """Seeds the global random generators, and restores their state afterwards."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])
