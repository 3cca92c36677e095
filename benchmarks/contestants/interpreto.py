"""It takes all texts at once; its gradients are absolute and averaged over a vector's elements."""

from __future__ import annotations

from interpreto import Granularity, IntegratedGradients, KernelShap, Lime, Occlusion, Saliency

from contestants.base import BATCH, Peer


class Contestant(Peer):
    def all_texts(self, method, given, options):
        return method(given, **options)

    def gradient(self, texts):
        return self._explained(Saliency, texts, input_x_gradient=False)

    def input_x_gradient(self, texts):
        return self._explained(Saliency, texts)

    def integrated_gradients(self, texts, steps):
        return self._explained(IntegratedGradients, texts, n_perturbations=steps)

    def leave_one_out(self, texts):
        return self._explained(Occlusion, texts)

    def lime(self, texts, samples):
        return self._explained(Lime, texts, n_perturbations=samples)

    def kernel_shap(self, texts, samples):
        return self._explained(KernelShap, texts, n_perturbations=samples)

    def _explained(self, method, texts, **options):
        explain = method(self.model, self.tokenizer, batch_size=BATCH, granularity=Granularity.TOKEN, **options)
        return [explanation.attributions[0] for explanation in explain(texts)]
