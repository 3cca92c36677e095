"""A right attribution function, and the same with one fault each."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import torch


class Right:
    """Leave-one-out, Shapley values, integrated gradients or input × gradient of logits, batched by hand."""

    of = "logit"

    def __init__(self, method: str = "leave_one_out") -> None:
        self.method = method
        self.claims = (method,)
        self.__name__ = f"right_{method}"

    def __call__(self, model, tokenizer, texts, target):
        if not texts:
            return []
        training = [module.training for module in model.modules()]
        model.eval()
        try:
            return self.explain(model, tokenizer, texts, target)
        finally:
            for module, mode in zip(model.modules(), training, strict=True):
                module.training = mode

    def encode(self, tokenizer, texts):
        """Rows of equal length, padded by hand as the tokenizer says. -> ids, mask, types, offsets, inner"""
        firsts = [text if isinstance(text, str) else text[0] for text in texts]
        seconds = None if isinstance(texts[0], str) else [text[1] for text in texts]
        cut = {"truncation": True, "max_length": tokenizer.model_max_length}
        rows = []
        for place, first in enumerate(firsts):
            pair = None if seconds is None else seconds[place]
            before = tokenizer.backend_tokenizer.truncation, tokenizer.backend_tokenizer.padding
            encoded = tokenizer(first, pair, return_offsets_mapping=True, **cut)
            self.restore(tokenizer, before)
            rows.append((encoded["input_ids"], encoded["offset_mapping"], encoded.sequence_ids()))
        return rows

    def restore(self, tokenizer, before):
        truncation, _ = before
        if truncation is None:
            tokenizer.backend_tokenizer.no_truncation()

    def batch(self, model, tokenizer, rows):
        """-> vectors, mask, [(number, slice)] of each row"""
        longest = max(len(ids) for ids, *_ in rows)
        pad = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        left = tokenizer.padding_side == "left"
        ids = torch.full((len(rows), longest), pad)
        mask = torch.zeros(len(rows), longest, dtype=torch.long)
        starts = []
        for place, (own, *_) in enumerate(rows):
            start = longest - len(own) if left else 0
            ids[place, start : start + len(own)] = torch.tensor(own)
            mask[place, start : start + len(own)] = 1
            starts.append(start)
        return ids, mask, starts

    def types(self, ids, rows, starts):
        types = torch.zeros_like(ids)
        for place, (own, _, owners) in enumerate(rows):
            kinds = [owner or 0 for owner in owners]
            if 1 in owners:
                kinds[-1] = 1
            types[place, starts[place] : starts[place] + len(own)] = torch.tensor(kinds)
        return types

    def value(self, model, vectors, mask, types, target):
        logits = model(inputs_embeds=vectors, attention_mask=mask, token_type_ids=types).logits
        return logits[:, target]

    def explain(self, model, tokenizer, texts, target):
        rows = self.encode(tokenizer, texts)
        ids, mask, starts = self.batch(model, tokenizer, rows)
        types = self.types(ids, rows, starts)
        if model.config.model_type == "roberta":
            types = torch.zeros_like(types)
        vectors = model.get_input_embeddings()(ids).detach()
        results = []
        inner = [
            [start + at for at, owner in enumerate(owners) if owner == 0]
            for start, (_, _, owners) in zip(starts, rows, strict=True)
        ]
        scores = self.scores(model, vectors, mask, types, inner, target)
        for (_, offsets, owners), values in zip(rows, scores, strict=True):
            spans = [offset for offset, owner in zip(offsets, owners, strict=True) if owner == 0]
            results.append([(span, float(value)) for span, value in zip(spans, values, strict=True)])
        return results

    def scores(self, model, vectors, mask, types, inner, target):
        return getattr(self, f"by_{self.method}")(model, vectors, mask, types, inner, target)

    def erased(self, model, vectors, mask, types, row, keeps, inner, target):
        """The class's value where the tokens of a row are kept or zero. keeps: list of sets of places"""
        many = vectors[row].expand(len(keeps), -1, -1).clone()
        for place, kept in enumerate(keeps):
            for at in inner[row]:
                if at not in kept:
                    many[place, at] = 0
        rows = len(keeps)
        with torch.no_grad():
            values = self.value(model, many, mask[row].expand(rows, -1), types[row].expand(rows, -1), target)
        return values.double().numpy()

    def by_leave_one_out(self, model, vectors, mask, types, inner, target):
        result = []
        for row, places in enumerate(inner):
            keeps = [set(places), *(set(places) - {at} for at in places)]
            values = self.erased(model, vectors, mask, types, row, keeps, inner, target)
            result.append(values[0] - values[1:])
        return result

    def by_shapley(self, model, vectors, mask, types, inner, target):
        result = []
        for row, places in enumerate(inner):
            if len(places) > 9:
                raise NotImplementedError("exact values of more than nine tokens")
            n = len(places)
            sets = [frozenset(kept) for size in range(n + 1) for kept in combinations(places, size)]
            found = self.erased(model, vectors, mask, types, row, sets, inner, target)
            values = dict(zip(sets, found, strict=True))
            weights = [factorial(size) * factorial(n - size - 1) / factorial(n) for size in range(n)]
            scores = [
                sum(weights[len(kept)] * (values[kept | {at}] - values[kept]) for kept in sets if at not in kept)
                for at in places
            ]
            result.append(np.array(scores))
        return result

    def by_integrated_gradients(self, model, vectors, mask, types, inner, target, nodes=8):
        points, weights = np.polynomial.legendre.leggauss(nodes)
        start = vectors.clone()
        for row, places in enumerate(inner):
            start[row, places] = 0
        total = torch.zeros(vectors.shape, dtype=torch.float64)
        for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
            total += weight * self.slope(model, start + float(point) * (vectors - start), mask, types, target)
        products = ((vectors - start).double() * total).sum(-1)
        return [products[row, places].numpy() for row, places in enumerate(inner)]

    def by_input_x_gradient(self, model, vectors, mask, types, inner, target):
        products = (vectors.double() * self.slope(model, vectors, mask, types, target)).sum(-1)
        return [products[row, places].numpy() for row, places in enumerate(inner)]

    def slope(self, model, vectors, mask, types, target):
        with torch.enable_grad():
            given = vectors.clone().requires_grad_()
            (slope,) = torch.autograd.grad(self.value(model, given, mask, types, target).sum(), given)
        return slope.double()


right = Right()
