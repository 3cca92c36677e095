"""What the API is asked, as OpenAPI documents it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from troth.serve import limits

Text = Annotated[str, StringConstraints(max_length=limits.TEXT)]
Spec = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Class = Annotated[str, StringConstraints(max_length=500)] | Annotated[int, Field(ge=0, le=1 << 31)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)  # what OpenAPI says, and nothing that looks like it


class _OfText(_Request):
    text: Text = Field(description="The text, at least one word of it.", examples=["Not a bad film, but far too long."])
    text_pair: Text | None = Field(None, description="The second text, for models that read two.")
    units: Literal["token", "word", "sentence", "passage"] = Field("word", description="What is scored and erased.")
    segments: Literal["first", "both"] = Field("first", description="Which of two texts is explained.")
    masking: Spec = Field("mask_token", description="How a unit is erased.")
    seed: int = Field(0, ge=0, le=1 << 31, description="Seed of every random draw.")


class _Explaining(_OfText):
    explainers: list[Spec] = Field(
        ["integrated_gradients"],
        min_length=1,
        max_length=limits.EXPLAINERS,
        description="Methods, with options: integrated_gradients(steps=50).",
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
    """One text, two models."""

    models: list[Spec] = Field(min_length=2, max_length=2, description="Two of the models that are served.")


class Erase(_OfText):
    """One text, erased in several ways."""

    model: Spec | None = Field(None, description="One of the models that are served; by default the first.")
    keep: list[list[Annotated[int, Field(ge=0, le=1)]]] = Field(
        max_length=limits.ROWS, description="A row for each erased input: 1 keeps a unit, 0 erases it."
    )
