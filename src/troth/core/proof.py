"""Evidence on one text: the model's output without the units that an explanation ranks highest."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self


@dataclass(frozen=True)
class Proof:
    """Probabilities of the explained class: for the whole text, without the top units, and without as many random
    units.

    For models that return values, these are the values.
    """

    ratio: float  # the fraction of units that are erased
    count: int  # the number of units that are erased
    masking: str  # the masking that erases them
    probability: float  # of the whole text
    without_top: float
    without_random: float  # the mean over random choices
    random_low: float  # 2.5 % of the random choices are below this value
    random_high: float  # 2.5 % of the random choices are above this value
    choices: int  # the number of random choices that were tested
    exact: bool  # all possible choices were tested
    chance: float  # fraction of random choices that lower the probability as much
    predicted_without_top: str  # the prediction without the top units: a class, "toxic" or "not toxic"; "" for values
    runner_up: str  # the second most probable class or label on the whole text; "" if there is none
    runner_up_probability: float | None
    runner_up_without_top: float | None
    most_faithful: bool | None = None  # among the methods compared; None: cannot tell
    # The result of each choice; not in `to_dict`.
    random: tuple[float, ...] = field(default=(), repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        facts = asdict(self)
        del facts["random"]
        return facts

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Rebuilds a proof from `to_dict`; ignores fields that a later version may have added."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in facts.items() if name in known})
