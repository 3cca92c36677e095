"""One contestant of the speed contest: loads the model once, then explains what it is sent, a JSON line each way.

    python benchmarks/peers.py captum MODEL_FOLDER

It runs in the contestant's own environment, so nothing but torch and transformers is taken for granted. Everyone
scores the tokens of the text (not the special ones) for the class the model predicts.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
import warnings

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
BATCH = 32


class Contestant:
    """What every peer needs: the model as its user has it, and one text as ids."""

    def __init__(self, folder: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        self.embeddings = self.model.get_input_embeddings()

    def explain(self, method: str, texts: list[str], options: dict) -> list[list[float]]:
        return [np.asarray(getattr(self, method)(text, **options), dtype=float).tolist() for text in texts]

    def read(self, text: str) -> tuple[torch.Tensor, int]:
        """The ids of one text and the class it gets."""
        ids = self.tokenizer(text, return_tensors="pt")["input_ids"]
        return ids, int(self.logits(ids)[0].argmax())

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return torch.cat([self.model(input_ids=part).logits for part in ids.split(BATCH)])

    def of_vectors(self, vectors: torch.Tensor) -> torch.Tensor:
        return self.model(inputs_embeds=vectors).logits

    def kept(self, ids: torch.Tensor, keep: np.ndarray) -> torch.Tensor:
        """The text with the mask token where `keep` is 0. [1, 2 + tokens], [rows, tokens] -> [rows, 2 + tokens]"""
        rows = ids.repeat(len(keep), 1)
        rows[:, 1:-1][torch.from_numpy(np.asarray(keep) < 0.5)] = self.tokenizer.mask_token_id
        return rows

    def reference(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids with every token masked."""
        return self.kept(ids, np.zeros((1, ids.shape[1] - 2)))


class Troth(Contestant):
    """Ours: all texts together."""

    def explain(self, method, texts, options):
        import troth

        if not hasattr(self, "ours"):
            self.ours = troth.load_model(self.model, tokenizer=self.tokenizer)
        arguments = ", ".join(f"{name}={value}" for name, value in options.items())
        found = troth.explain(self.ours, texts, f"{method}({arguments})", units="token")
        return [attribution.scores.tolist() for attribution in found]


class Transformers(Contestant):
    """What a user writes by hand."""

    def gradient(self, text, norm="l2"):
        ids, target = self.read(text)
        vectors = self.embeddings(ids).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.of_vectors(vectors)[0, target], vectors)
        return (gradient[0, 1:-1] @ self.embeddings.weight.detach().T).norm(p=2 if norm == "l2" else 1, dim=-1)

    def attention(self, text):
        self.model.set_attn_implementation("eager")
        ids = self.tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            return self.model(input_ids=ids, output_attentions=True).attentions[-1][0, :, 0, 1:-1].mean(0)

    def attention_x_gradient(self, text):
        self.model.set_attn_implementation("eager")
        ids = self.tokenizer(text, return_tensors="pt")["input_ids"]
        output = self.model(input_ids=ids, output_attentions=True)
        last = output.attentions[-1]
        (gradient,) = torch.autograd.grad(output.logits[0].max(), last)
        return (last.mean(1) * gradient.mean(1))[0, 0, 1:-1].detach()


class Captum(Contestant):
    def input_x_gradient(self, text):
        from captum.attr import InputXGradient

        ids, target = self.read(text)
        vectors = self.embeddings(ids).detach().requires_grad_()
        return InputXGradient(self.of_vectors).attribute(vectors, target=target)[0, 1:-1].sum(-1).detach()

    def gradient(self, text):
        from captum.attr import Saliency

        ids, target = self.read(text)
        vectors = self.embeddings(ids).detach().requires_grad_()
        return Saliency(self.of_vectors).attribute(vectors, target=target)[0, 1:-1].norm(dim=-1).detach()

    def integrated_gradients(self, text, steps=20):
        from captum.attr import IntegratedGradients

        ids, target = self.read(text)
        vectors = self.embeddings(ids).detach()
        baseline = vectors.clone()
        baseline[:, 1:-1] = 0
        found = IntegratedGradients(self.of_vectors).attribute(
            vectors, baseline, target=target, n_steps=steps, method="riemann_right"
        )
        return found[0, 1:-1].sum(-1).detach()

    def sequential_integrated_gradients(self, text, steps=50):
        from captum.attr import IntegratedGradients

        ids, target = self.read(text)
        vectors, masked = self.embeddings(ids).detach(), self.embeddings(self.reference(ids)).detach()
        scores = []
        for token in range(1, ids.shape[1] - 1):
            baseline = vectors.clone()
            baseline[0, token] = masked[0, token]
            found = IntegratedGradients(self.of_vectors).attribute(
                vectors, baseline, target=target, n_steps=steps, method="gausslegendre"
            )
            scores.append(float(found.sum()))
        return scores

    def gradient_shap(self, text, samples=20):
        from captum.attr import GradientShap

        ids, target = self.read(text)
        vectors = self.embeddings(ids).detach()
        zero = vectors.clone()
        zero[:, 1:-1] = 0
        found = GradientShap(self.of_vectors).attribute(
            vectors, torch.cat([zero, vectors]), n_samples=samples, target=target
        )
        return found[0, 1:-1].sum(-1).detach()

    def leave_one_out(self, text):
        from captum.attr import FeatureAblation

        return self._perturbed(FeatureAblation, text)

    def lime(self, text, samples=1000):
        from captum.attr import Lime

        return self._perturbed(Lime, text, n_samples=samples)

    def kernel_shap(self, text, samples=1000):
        from captum.attr import KernelShap

        return self._perturbed(KernelShap, text, n_samples=samples)

    def exact_shapley(self, text):
        from captum.attr import ShapleyValues

        return self._perturbed(ShapleyValues, text)

    def _perturbed(self, method, text, **options):
        ids, target = self.read(text)
        # One feature more than tokens: the special ones, which do not change.
        tokens = ids.shape[1] - 2
        features = torch.cat([torch.tensor([tokens]), torch.arange(tokens), torch.tensor([tokens])])[None]
        with torch.no_grad():
            found = method(lambda rows: self.model(input_ids=rows).logits).attribute(
                ids, self.reference(ids), target=target, feature_mask=features, perturbations_per_eval=BATCH, **options
            )
        return found[0, 1:-1]


class Shap(Contestant):
    def kernel_shap(self, text, samples=1000):
        import shap

        predict, count = self._predict(text)
        explainer = shap.KernelExplainer(predict, np.zeros((1, count)))
        return explainer.shap_values(np.ones((1, count)), nsamples=samples, l1_reg=False, silent=True)[0]

    def exact_shapley(self, text):
        import shap

        predict, count = self._predict(text)
        masker = shap.maskers.Independent(np.zeros((1, count)), max_samples=1)
        return shap.explainers.Exact(predict, masker)(np.ones((1, count)), silent=True).values[0]

    def _predict(self, text):
        ids, target = self.read(text)
        return lambda keep: self.logits(self.kept(ids, keep))[:, target].numpy(), ids.shape[1] - 2


class Lime(Contestant):
    def lime(self, text, samples=1000):
        from lime.lime_text import LimeTextExplainer

        ids, target = self.read(text)
        count = ids.shape[1] - 2

        def predict(texts):
            keep = np.array([[word != "UNKWORDZ" for word in text.split()] for text in texts])
            return self.logits(self.kept(ids, keep)).numpy()

        words = " ".join(f"w{number}" for number in range(count))
        explainer = LimeTextExplainer(bow=False, split_expression=r"\s+")
        found = explainer.explain_instance(words, predict, labels=[target], num_features=count, num_samples=samples)
        scores = dict(found.local_exp[target])
        return [scores[number] for number in range(count)]


class Ferret(Contestant):
    def input_x_gradient(self, text):
        from ferret.explainers.gradient import GradientExplainer

        return self._explained(GradientExplainer, text)

    def integrated_gradients(self, text, steps=20):
        from ferret.explainers.gradient import IntegratedGradientExplainer

        return self._explained(IntegratedGradientExplainer, text, n_steps=steps)

    def lime(self, text, samples=1000):
        from ferret.explainers.lime import LIMEExplainer

        return self._explained(LIMEExplainer, text, num_samples=samples, batch_size=BATCH)

    def _explained(self, method, text, **options):
        _, target = self.read(text)
        return method(self.model, self.tokenizer)(text, target=target, call_args=options).scores[1:-1]


class Solvex(Contestant):
    def beam_search(self, text, width=50, **_):
        from solvex import BeamSearchExplainer, TextWordMasker

        ids, target = self.read(text)

        def predict(rows):
            keep = np.array([[word != "[MASK]" for word in row] for row in rows])
            return self.logits(self.kept(ids, keep)).softmax(-1).numpy()

        words = [f"w{number}" for number in range(ids.shape[1] - 2)]
        explainer = BeamSearchExplainer(TextWordMasker("replace-[MASK]"), predict, "comp-suff", width, BATCH)
        ranks = explainer.explain_instance(words, label=target, logging="none")["exp"]
        return np.argsort(np.argsort(ranks)) + 1  # it moves the zero of its ranks


class Networkx(Contestant):
    def text_rank(self, text):
        import networkx

        self.read(text)  # an explanation names its class; ours asks for it too
        words = self.tokenizer.tokenize(text)
        graph = networkx.Graph()
        for place, word in enumerate(words):
            graph.add_edges_from((word, other) for other in words[place + 1 : place + 4] if other != word)
        ranks = networkx.pagerank(graph, alpha=0.85, tol=1e-10)
        return [len(ranks) * ranks[word] for word in words]


class Sklearn(Contestant):
    def explain(self, method, texts, options):
        from sklearn.feature_extraction.text import TfidfVectorizer

        for text in texts:
            self.read(text)  # an explanation names its class; ours asks for it too
        vectorizer = TfidfVectorizer(analyzer=self.tokenizer.tokenize)
        table = vectorizer.fit_transform(texts).toarray()
        places = vectorizer.vocabulary_
        tokens = [self.tokenizer.tokenize(text) for text in texts]
        return [[float(row[places[token]]) for token in line] for row, line in zip(table, tokens, strict=True)]


def memory(field: str) -> float:
    """VmRSS (now) or VmHWM (the most since it was last set back), in MB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))


def settle() -> None:
    """Gives free memory back to the system and sets the high-water mark back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as references:
        references.write("5")


def main() -> None:
    library, folder = sys.argv[1:3]
    replies, sys.stdout = sys.stdout, sys.stderr  # what a library prints is not an answer
    contestant = {kind.__name__.lower(): kind for kind in Contestant.__subclasses__()}[library](folder)
    replies.write(json.dumps({"ready": library}) + "\n")
    replies.flush()
    for line in sys.stdin:
        job = json.loads(line)
        settle()
        before, start = memory("VmRSS"), time.process_time()
        try:
            scores = contestant.explain(job["method"], job["texts"], job["options"])
            reply = {"cpu": time.process_time() - start, "peak": memory("VmHWM") - before, "scores": scores}
        except Exception as error:  # the contest goes on without this entry
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
