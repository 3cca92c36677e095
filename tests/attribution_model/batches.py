"""Batches of whole inputs, as the prober builds them."""

import torch

from troth.core.types import Example, Rows


def rows_of(model, texts, units="token"):
    """A batch of whole inputs, as the prober builds it."""
    encodings = model.encode([Example(str(place), text) for place, text in enumerate(texts)], units)
    length = max(len(encoding.ids) for encoding in encodings)

    def padded(name, filler):
        parts = [getattr(encoding, name) for encoding in encodings]
        return torch.stack([torch.cat([part, part.new_full((length - len(part),), filler)]) for part in parts])

    count = len(encodings)
    return Rows(
        encodings=encodings,
        ids=padded("ids", model.filler_id),
        units=padded("units", -1),
        lengths=torch.tensor([len(encoding.ids) for encoding in encodings]),
        target=torch.full((count,), -1),
        against=torch.full((count,), -1),
        keys=torch.zeros(count, dtype=torch.int64),
        token_types=None if encodings[0].token_types is None else padded("token_types", 0),
    )
