"""The requests of the API, as OpenAPI documents them, and the limits of a request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from troth.core import catalog, trust, user_code
from troth.core.errors import TrothError
from troth.explainers import Explainer
from troth.verbs import methods

BODY = 1 << 20  # maximum bytes of a request
TEXT = 20_000  # maximum characters of a text
UNITS = 1_000  # maximum units of a text
EXPLAINERS = 8  # maximum per request
ROWS = 64  # maximum erased inputs per request
PASSAGES = 64  # maximum per request
TOKENS = 500  # maximum tokens that a model may write per request
_NUMBER = 10_000  # the largest numeric option of an explainer, such as samples, steps or width

Text = Annotated[str, StringConstraints(max_length=TEXT)]
Spec = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Class = Annotated[str, StringConstraints(max_length=500)] | Annotated[int, Field(ge=0, le=1 << 31)]


class _Request(BaseModel):
    # Rejects unknown fields and values of similar types, as OpenAPI documents it.
    model_config = ConfigDict(extra="forbid", strict=True)


class _OfText(_Request):
    text: Text = Field(description="The text, at least one word of it.", examples=["Not a bad film, but far too long."])
    text_pair: Text | None = Field(None, description="The second text, for models that read two.")
    units: Literal["token", "word", "sentence", "passage"] = Field("word", description="What is scored and erased.")
    segments: Literal["first", "both"] = Field("first", description="Which of two texts is explained.")
    masking: Spec | None = Field(None, description="How a unit is erased, in the proof too; by default mask_token.")
    seed: int = Field(0, ge=0, le=1 << 31, description="Seed of every random draw.")


class _Explaining(_OfText):
    explainers: Annotated[list[Spec], Field(min_length=1, max_length=EXPLAINERS)] | None = Field(
        None,
        description="Methods, with options: integrated_gradients(steps=50); by default one that the model can answer.",
    )
    target: Class | Annotated[list[Class], Field(min_length=1, max_length=100)] = Field(
        "predicted",
        description="The class explained: predicted, an index, a label or a list of them; above_threshold of a "
        "multi-label model; each of a continuation.",
    )
    against: Class | None = Field(None, description="Explain why the target rather than this class.")
    proof: bool = Field(True, description="Erase each method's top units, and random ones, and ask the model again.")


class Explain(_Explaining):
    """One text, one model, some explainers."""

    model: Spec | None = Field(None, description="One of the models that are served; by default the first.")


class Compare(_Explaining):
    """One text, one model or two; an explainer that cannot explain a model does not lose the results of the others."""

    models: list[Spec] = Field(min_length=1, max_length=2, description="One or two of the models that are served.")


class Cite(_Request):
    """A question, the passages that an answer may rest on, and the answer."""

    model: Spec | None = Field(None, description="A language model that is served; by default the first model.")
    question: Text = Field(description="What was asked.", examples=["Who wrote Faust?"])
    passages: Annotated[list[Text], Field(min_length=1, max_length=PASSAGES)] | dict[str, Text] = Field(
        description=f"At most {PASSAGES} texts, or an object of names and texts."
    )
    answer: Text | None = Field(None, description="The answer; without one the model writes it.")
    generate: int = Field(100, ge=1, le=TOKENS, description="How many tokens the model may write.")
    masking: Spec | None = Field(None, description="How a passage is erased; by default delete.")
    seed: int = Field(0, ge=0, le=1 << 31, description="Seed of every random draw.")


class Erase(_OfText):
    """One text, erased in several ways."""

    model: Spec | None = Field(None, description="One of the models that are served; by default the first.")
    keep: list[list[Annotated[int, Field(ge=0, le=1)]]] = Field(
        max_length=ROWS, description="A row for each erased input: 1 keeps a unit, 0 erases it."
    )


def offered() -> list[str]:
    """The explainers that a request may use."""
    names = catalog.names("explainers")
    return [name for name in names if not trust.names_elsewhere("explainers", name)]


def explainers(specs: Sequence[str]) -> dict[str, Explainer]:
    """The explainers of a request by spec: only from the catalog, of limited size, and without files or endpoints."""
    for spec in specs:
        name = catalog.parse(spec)[0] if user_code.read(spec) is None else ""
        outside = trust.names_elsewhere("explainers", name) if name else []
        if outside:
            raise TrothError(
                f"{name} reads {outside[0]} from elsewhere, which requests to this server may not "
                "name; use troth explain"
            )
        _check("explainers", spec)
    return methods.EXPLAINERS.by_name(specs)


def masking(spec: str | None, otherwise: str = "mask_token") -> str:
    """The checked spec of a masking, or the default if there is none."""
    if spec is None:
        return otherwise
    _check("maskings", spec)
    return catalog.spec(catalog.build("maskings", spec))


def _check(kind: str, spec: str) -> None:
    """Rejects a spec with options that are too large, or that refer to files or endpoints."""
    trust.Origin("a request").spec(kind, spec)
    name, options = catalog.parse(spec)
    for option, value in options.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and not (math.isfinite(value) and abs(value) <= _NUMBER):
            raise TrothError(f"{name}: {option} is at most {_NUMBER:,} here, not {value}; use troth explain")
