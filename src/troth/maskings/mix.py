"""A unit's word vectors move toward a reference vector: keep · x + (1 − keep) · m; positions and attention do not
change (Barkan et al., 2024).

AML uses the mask token's vector as m; the baselines of path methods are the same operation with other vectors.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from troth.core.types import Rows
from troth.maskings import Masking, mask_of
from troth.models import TextClassifier

Reference = Literal["mask", "pad", "zero"]


def reference_vector(model: TextClassifier, reference: Reference) -> Tensor:
    """[hidden] The word vector that represents an absent token."""
    matrix = model.embedding_matrix
    if reference == "zero":
        return matrix.new_zeros(matrix.shape[1])
    # Looked up by the model itself, because some families (Gemma, PLBART) scale the rows of the embedding matrix.
    token = torch.tensor([mask_of(model) if reference == "mask" else model.pad_id], device=matrix.device)
    return model.embed(token)[0].detach()


@dataclass(frozen=True)
class Mix(Masking):
    level = "embeddings"
    puts_mask = True
    formula = "kᵢ · xᵢ + (1 − kᵢ) · m"
    pitfalls = "Vectors between a word and the reference belong to no word that the model has read."

    reference: Reference = "mask"

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        if self.reference == "zero" and model.has_rms_norm and bool(((keep < 1) & (rows.units < 0) & rows.real).any()):
            warnings.warn(
                f"{model.name} divides by the size of its vectors (RMSNorm), so a path on which all vectors start at "
                'zero says little: use moves="units" or baseline="mask"',
                UserWarning,
                stacklevel=2,
            )
        vectors = rows.vectors(model)
        share = keep[..., None].to(vectors.dtype)
        return replace(rows, embeddings=share * vectors + (1 - share) * reference_vector(model, self.reference))
