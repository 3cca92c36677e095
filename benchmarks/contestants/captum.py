from __future__ import annotations

import torch
from captum.attr import FeatureAblation, InputXGradient, IntegratedGradients, KernelShap, Lime, Saliency

from contestants.base import BATCH, Peer


class Contestant(Peer):
    def gradient(self, text):
        ids, target = self.read(text)
        vectors = self.embeddings(ids).detach().requires_grad_()
        return Saliency(self.of_vectors).attribute(vectors, target=target)[0, 1:-1].norm(dim=-1).detach()

    def input_x_gradient(self, text):
        ids, target = self.read(text)
        vectors = self.embeddings(ids).detach().requires_grad_()
        return InputXGradient(self.of_vectors).attribute(vectors, target=target)[0, 1:-1].sum(-1).detach()

    def integrated_gradients(self, text, steps):
        ids, target = self.read(text)
        vectors = self.embeddings(ids).detach()
        baseline = vectors.clone()
        baseline[:, 1:-1] = 0
        scores = IntegratedGradients(self.of_vectors).attribute(
            vectors, baseline, target=target, n_steps=steps, method="riemann_right"
        )
        return scores[0, 1:-1].sum(-1).detach()

    def leave_one_out(self, text):
        return self._perturbed(FeatureAblation, text)

    def lime(self, text, samples):
        return self._perturbed(Lime, text, n_samples=samples)

    def kernel_shap(self, text, samples):
        return self._perturbed(KernelShap, text, n_samples=samples)

    def _perturbed(self, method, text, **options):
        ids, target = self.read(text)
        # One feature more than tokens: the special ones, which do not change.
        tokens = ids.shape[1] - 2
        features = torch.cat([torch.tensor([tokens]), torch.arange(tokens), torch.tensor([tokens])])[None]
        together = 1 if self.setting == "default" else BATCH
        with torch.no_grad():
            scores = method(lambda rows: self.model(input_ids=rows).logits).attribute(
                ids, self.reference(ids), target=target, feature_mask=features, perturbations_per_eval=together,
                **options,
            )  # fmt: skip
        return scores[0, 1:-1]
