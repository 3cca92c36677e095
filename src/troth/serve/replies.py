"""What the API answers, as OpenAPI documents it; the JSON itself is the command line's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from troth.core.outputs import Outputs

# Not tuples, for which OpenAPI 3.1 and FastAPI disagree on the schema.
Span = Annotated[list[int], Field(min_length=2, max_length=2)]
PromptPart = Annotated[list[int | str | None], Field(min_length=2, max_length=2)]


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ProofReply(_Reply):
    """Probabilities of the target (of a model that gives values, the values), and what erasing did to them."""

    ratio: float = Field(description="The share of units that are erased.")
    count: int = Field(description="How many that is here.")
    masking: str
    probability: float | None = Field(description="Of the whole text.")
    without_top: float | None = Field(description="Without the units that the explanation ranks highest.")
    without_random: float | None = Field(description="Without as many random ones, on average.")
    random_low: float | None = Field(description="2.5 % of random choices lie below.")
    random_high: float | None = Field(description="2.5 % of random choices lie above.")
    choices: int = Field(description="How many random choices were asked about.")
    exact: bool = Field(description="Those are all the choices there are.")
    chance: float | None = Field(description="The share of random choices that lower the probability as much.")
    predicted_without_top: str
    runner_up: str
    runner_up_probability: float | None
    runner_up_without_top: float | None
    most_faithful: bool | None = Field(description="Of the methods it was compared with; null: cannot tell.")


class _Explained(_Reply):
    id: str
    text: str
    text_pair: str | None
    label: int | list[int] | None
    units: list[str] = Field(description="What is scored and erased, in reading order.")
    unit_kind: str
    spans: list[Span] = Field(description="Characters of each unit in its text.")
    segments: list[int] = Field(description="Where each unit is: 0 text, 1 text_pair, 2 + i shot i of a prompt.")
    outputs: Outputs = Field(description="What the probabilities are: of classes, of labels, or values.")
    threshold: float | None
    signed: bool
    explainer: str
    model: str = Field(description="The model's fingerprint.")
    seed: int
    truncated: int = Field(description="Units cut off at the end of the text.")
    prompt: list[PromptPart] = Field(description="A prompt's parts: its words, or the text inside it.")
    continuation: list[str] = Field(description="The tokens that a language model wrote.")
    note: str


class ExplanationReply(_Explained):
    """One score per unit: how much it pushes toward the target."""

    scores: list[float | None] = Field(description="One per unit; null where undefined.")
    target: int
    target_label: str
    against: int | None
    against_label: str | None
    labels: list[str]
    probabilities: list[float | None] = Field(description="Of the whole text, one per label.")
    rest: float | None = Field(description="The score of the tokens that are in no unit.")
    gap: float | None = Field(description="By how much a path method's scores miss the change they should sum to.")
    proof: ProofReply | None


class TokenMatrix(_Explained):
    """Of a continuation, with the target "each": a row of scores for every token that was written."""

    targets: list[str]
    values: list[float | None] = Field(description="Each token's log-probability.")
    scores: list[list[float | None]] = Field(description="[tokens, units]")


class OfModel(_Reply):
    """The explanations of one of the models compared."""

    model: str
    explanations: list[ExplanationReply | TokenMatrix]


class Compared(_Reply):
    """The same explanations of two models."""

    models: list[OfModel]


class Erased(_Reply):
    """What the model says of the whole text, and of what each row of `keep` leaves."""

    units: list[str]
    spans: list[Span]
    segments: list[int]
    labels: list[str]
    outputs: Outputs
    whole: list[float | None] = Field(description="The whole text's probabilities, one per label.")
    probabilities: list[list[float | None]] = Field(description="[rows of keep, labels]")
    strongest: list[int] = Field(description="The class that each row would get.")
    note: str


class ServedModel(_Reply):
    """A model that can be chosen."""

    name: str
    labels: list[str]
    outputs: Outputs
    continues: bool = Field(description="A language model whose continuation is explained.")
    threshold: float | None
    fingerprint: str


class Named(_Reply):
    """An entry of the catalog."""

    name: str
    summary: str


class Most(_Reply):
    """How much one request may ask for."""

    text: int = Field(description="Characters.")
    units: int
    explainers: int
    rows: int = Field(description="Rows of keep.")


class About(_Reply):
    """What is served."""

    version: str
    models: list[ServedModel]
    explainers: list[Named] = Field(description="Those that a request may name.")
    maskings: list[Named]
    limits: Most
    run: str | None = Field(description="The run that was opened on the command line.")


class Run(_Reply):
    """How far a run is; one that cannot be read has a problem and no numbers."""

    run: str = Field(description="Its folder.")
    problem: str
    created: str
    models: list[str] = []
    data: list[str] = []
    seeds: list[int] = []
    planned: int = Field(0, description="Cells: explanations, metrics and checks.")
    finished: int = 0
    failed: int = 0
    bytes: int = 0


class MeasuredReply(_Reply):
    """One metric of one explainer."""

    value: float | None
    low: float | None = Field(description="The 95 % interval over examples.")
    high: float | None
    group: str = Field(description="A shared letter: no significant difference.")
    beats_random: bool | None
    examples: int
    undefined: dict[str, int] = Field(description="Why, and of how many examples.")
    seeds: int
    seed_spread: float | None
    validity: str


class BoardRow(BaseModel):
    """One explainer; each metric under its own name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, MeasuredReply]

    explainer: str
    seconds: float | None = Field(description="Per example.")
    passes: float | None = Field(description="Forward and backward rows per example.")


class Validity(_Reply):
    """Whether what a metric erases is still an input as the model knows them."""

    verdict: str
    p: float | None
    smallest_p: float | None
    why: str


class Board(_Reply):
    """The leaderboard of one model and data set."""

    model: str
    data: str
    examples: int
    clusters: int = Field(description="Independent examples: copies of a text, and a named group, count once.")
    rows: list[BoardRow]
    answer: list[str] = Field(description="The result in words.")
    failures: dict[str, str]
    skipped: dict[str, str]
    validity: dict[str, Validity]


class Problem(_Reply):
    """Why there is no result, in one line."""

    error: str


class Queued(_Reply):
    """The event `queued`."""

    ahead: int = Field(description="Requests that came before and are not done.")


class ProgressReply(_Reply):
    """The event `progress`, at most ten times per second."""

    explainer: str
    done: int = Field(description="Explainers that are done.")
    of: int
    rows: int = Field(description="Erased inputs that the model has been asked about.")


class Failed(Problem):
    """The event `error`."""

    status: Literal[422, 500, 503, 504]
