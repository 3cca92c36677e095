"""The evidence on one text: what the model says of it without the units that an explanation puts first."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self


@dataclass(frozen=True)
class Proof:
    """Probabilities of the class explained: of the whole text, without the top units, without as many random ones.

    Of a model that gives values they are the values.
    """

    ratio: float  # the share of units that are erased
    count: int  # how many that is here
    masking: str  # how they are erased
    probability: float  # of the whole text
    without_top: float
    without_random: float  # the mean over random choices
    random_low: float  # 2.5 % of random choices lie below
    random_high: float  # 2.5 % lie above
    choices: int  # how many random choices were asked about
    exact: bool  # they are all the choices there are
    chance: float  # share of random choices that lower the probability as much
    predicted_without_top: str  # what the model then says: a class, "toxic" or "not toxic"; "" of a value
    runner_up: str  # the strongest other class or label of the whole text; "" where there is none
    runner_up_probability: float | None
    runner_up_without_top: float | None
    most_faithful: bool | None = None  # of the methods it was compared with; None: cannot tell
    random: tuple[float, ...] = field(default=(), repr=False, compare=False)  # each choice's; not in `to_dict`

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        facts = asdict(self)
        del facts["random"]
        return facts

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """What `to_dict` gave; what a later troth may have added is left out."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in facts.items() if name in known})
