"""What a user writes by hand with plain transformers, in batches of 32 where rows of one text are of one length.

The setting `plain` is the same loop with one row per call.
"""

from __future__ import annotations

import numpy as np
import torch
from works import AOPC_RATIOS

from contestants.base import Peer, prompt_of


class Contestant(Peer):
    def gradient(self, text):
        ids, target = self.read(text)
        vectors = self.embeddings(ids).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.of_vectors(vectors)[0, target], vectors)
        # With respect to the one-hot input: one number per word of the vocabulary.
        return (gradient[0, 1:-1] @ self.embeddings.weight.detach().T).norm(dim=-1)

    def leave_one_out(self, text):
        ids, target = self.read(text)
        tokens = ids.shape[1] - 2
        return self.logits(ids)[0, target] - self.logits(self.kept(ids, 1 - np.eye(tokens)))[:, target]

    def before_aopc(self, text):
        ids, target = self.read(text)
        vectors = self.embeddings(ids).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.of_vectors(vectors)[0, target], vectors)
        return ids, target, (gradient * vectors)[0, 1:-1].sum(-1).detach().numpy()

    before_soft = before_aopc

    def aopc(self, given):
        ids, target, scores = given
        return [self._aopc(ids, target, scores, erases) for erases in (True, False)]

    def _aopc(self, ids, target, scores, erases):
        whole = self._probability(ids, target)
        order, inside = np.argsort(-scores, kind="stable"), ids[0, 1:-1]
        changes = []
        for ratio in AOPC_RATIOS:
            top = np.zeros(len(scores), bool)
            top[order[: round(10_000 * ratio) * len(scores) // 10_000]] = True
            left = inside[torch.from_numpy(~top if erases else top)]
            changes.append(whole - self._probability(torch.cat([ids[0, :1], left, ids[0, -1:]])[None], target))
        return np.mean(changes)

    def soft(self, given):
        ids, target, scores = given
        importance = torch.from_numpy(scores).sigmoid()
        whole, faded, empty = self._soft(ids, target, 1 - importance)
        lost = max(0.0, whole - faded)
        comprehensiveness = lost / max(0.0, whole - empty) if whole > empty else np.nan
        whole, faded, empty = self._soft(ids, target, importance)
        zero = 1 - max(0.0, whole - empty)
        sufficiency = (1 - max(0.0, whole - faded) - zero) / (1 - zero) if whole > empty else np.nan
        return [comprehensiveness, sufficiency]

    def _soft(self, ids, target, keep):
        """The class's probability given the whole text, each element of a word vector kept by chance, and nothing."""
        vectors = self.embeddings(ids).detach()
        faded, empty = vectors.clone(), vectors.clone()
        faded[0, 1:-1] *= torch.rand(faded[0, 1:-1].shape) < keep[:, None]
        empty[0, 1:-1] = 0
        with torch.no_grad():
            return [float(self.of_vectors(each).softmax(-1)[0, target]) for each in (vectors, faded, empty)]

    def before_recursive_leave_one_out(self, text):
        return text, self.leave_one_out(text)

    def recursive_leave_one_out(self, given):
        """The class's probability as more and more is masked, explaining again what is left; and by a random order."""
        text, scores = given
        ids, target = self.read(text)
        tokens = ids.shape[1] - 2
        kept, curve = np.ones(tokens), []
        for tenth in range(11):
            missing = tokens * tenth // 10 - int((kept == 0).sum())
            if missing and tenth < 10:
                if tenth > 1:
                    rows = np.concatenate([kept[None], kept * (1 - np.eye(tokens)[kept > 0])])
                    rows = self.kept(ids, rows)
                    each = rows.split(1) if self.setting == "plain" else [rows]
                    values = torch.cat([self.logits(some) for some in each])[:, target].numpy()
                    scores = np.full(tokens, -np.inf)
                    scores[kept > 0] = values[0] - values[1:]
                order = np.argsort(-np.asarray(scores), kind="stable")
                kept[order[kept[order] > 0][:missing]] = 0
            if tenth == 10:
                kept = np.zeros(tokens)
            curve.append(self._probability(self.kept(ids, kept[None]), target))
        order = np.random.default_rng(0).permutation(tokens)
        for tenth in range(11):
            rows = np.ones((1, tokens))
            rows[0, order[: tokens * tenth // 10]] = 0
            self._probability(self.kept(ids, rows), target)
        return curve

    def _probability(self, ids, target):
        with torch.no_grad():
            return float(self.model(input_ids=ids).logits.softmax(-1)[0, target])

    def causal_leave_one_out(self, text):
        """Without a cache: the prompt is read again for every row."""
        prompt, words = prompt_of(self.folder)
        before, after = ([*self.tokenizer(part)["input_ids"]] for part in prompt.split("{text}"))
        inside = self.tokenizer(text)["input_ids"]
        classes = self.tokenizer.convert_tokens_to_ids(words)
        rows = [inside, *([*inside[:i], self.tokenizer.mask_token_id, *inside[i + 1 :]] for i in range(len(inside)))]
        ids = torch.tensor([[*before, *row, *after] for row in rows])
        with torch.no_grad():
            found = torch.cat([self.model(input_ids=part, logits_to_keep=1).logits[:, -1] for part in ids.split(8)])
        values = found[:, classes]
        target = int(values[0].argmax())
        return values[0, target] - values[1:, target]
