"""The weights of the model that comes with troth, with a new head if the classes differ; nothing to download."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files

import torch

from troth.core import draws
from troth.core.types import Example
from troth.models import _pretrained
from troth.models._loading import quiet
from troth.models.encoder import Encoder
from troth.training.bases import Base
from troth.training.bases.pretrained import Pretrained


@dataclass(frozen=True)
class Embedded(Base):
    def build(self, examples: Sequence[Example], labels: tuple[str, ...], seed: int, max_length: int | None) -> Encoder:
        # The file also has the head of a masked language model, which transformers would report as unexpected.
        with as_file(files("troth.models") / "embedded_model") as folder, quiet():
            model = Pretrained(path=str(folder)).build(examples, labels, seed, max_length)
            own = _pretrained.config_of(str(folder)).id2label
        if [own[index] for index in sorted(own)] != list(labels):
            _renew_head(model, seed)
        model.name = "embedded"
        return model


def _renew_head(model: Encoder, seed: int) -> None:
    """Draws the classification head again, also for an equal number of other classes: its weights belong to positive
    and negative.
    """
    network = model.model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draws.key(seed, "new weights"))
        fresh = type(network)(network.config)
    fresh.base_model.load_state_dict(network.base_model.state_dict())
    network.load_state_dict(fresh.state_dict())
