"""Its occlusion scores every token before the class word, so those of the prompt, too."""

from __future__ import annotations

import inseq

from contestants.base import BATCH, Peer, prompt_of


class Contestant(Peer):
    def causal_leave_one_out(self, text):
        prompt, words = prompt_of(self.folder)
        whole = prompt.replace("{text}", text)
        model = inseq.load_model(self.model, "occlusion", tokenizer=self.tokenizer, device="cpu")
        attributed = model.attribute(
            whole, f"{whole} {words[0]}", attributed_fn="logit", show_progress=False, perturbations_per_eval=BATCH
        )
        scores = attributed.sequence_attributions[0].target_attributions[:, 0]
        before = len(self.tokenizer(prompt.split("{text}")[0])["input_ids"])
        return scores[before : before + len(self.tokenizer(text)["input_ids"])]
