"""One fault per property, planted into a right attribution function."""

from __future__ import annotations

import numpy as np
import torch
from tests.refereeing.adapters import Right


class Scaled(Right):
    """A fault in the scores of a text: `change(scores, words)`."""

    def __init__(self, change, method="leave_one_out"):
        super().__init__(method)
        self.change = change

    def explain(self, model, tokenizer, texts, target):
        results = super().explain(model, tokenizer, texts, target)
        changed = []
        for text, result in zip(texts, results, strict=True):
            scores = np.array([score for _, score in result])
            words = [(text if isinstance(text, str) else text[0])[slice(*span)] for span, _ in result]
            new = self.change(scores, words)
            changed.append([(span, float(score)) for (span, _), score in zip(result, new, strict=True)])
        return changed


class Unanswered(Right):
    def explain(self, *arguments):
        return [None for _ in super().explain(*arguments)]


class Drifting(Right):
    calls = 0

    def explain(self, *arguments):
        self.calls += 1
        return [[(span, score * (1 + 0.01 * self.calls)) for span, score in row] for row in super().explain(*arguments)]


class FirstModel(Right):
    def __init__(self):
        super().__init__()
        self.models = {}

    def explain(self, model, *arguments):
        if model.config.model_type == "bert":
            model = self.models.setdefault(model.config.hidden_size, model)
        return super().explain(model, *arguments)


class PredictedClass(Right):
    def explain(self, model, tokenizer, texts, target):
        results = []
        for text in texts:
            encoded = tokenizer(*([text] if isinstance(text, str) else text), return_tensors="pt", truncation=True)
            with torch.no_grad():
                target = int(model(**encoded).logits[0, :3].argmax())
            results += super().explain(model, tokenizer, [text], target)
        return results


class Probability(Right):
    of = "probability"

    def value(self, model, vectors, mask, types, target):
        logits = model(inputs_embeds=vectors, attention_mask=mask, token_type_ids=types).logits
        multi = model.config.problem_type == "multi_label_classification"
        return (logits.sigmoid() if multi and self.labels else logits.softmax(-1))[:, target]

    labels = True


class Softmax(Probability):
    labels = False


class LogProbability(Probability):
    of = "log_probability"

    def value(self, *arguments):
        return super().value(*arguments).log()


class SharedScale(Right):
    def explain(self, model, tokenizer, texts, target):
        rows = super().explain(model, tokenizer, texts, target)
        return [[(span, score / len(texts)) for span, score in row] for row in rows]


class OncePerText(Right):
    def explain(self, model, tokenizer, texts, target):
        rows, seen = super().explain(model, tokenizer, texts, target), set()
        for place, text in enumerate(texts):
            if text in seen:
                rows[place] = [(span, 0.0) for span, _ in rows[place]]
            seen.add(text)
        return rows


class SortedByLength(Right):
    def explain(self, model, tokenizer, texts, target):
        return super().explain(model, tokenizer, sorted(texts, key=len), target)


class PaddingCounted(Right):
    def batch(self, model, tokenizer, rows):
        ids, mask, starts = super().batch(model, tokenizer, rows)
        return ids, torch.ones_like(mask), starts


class AlwaysFromTheLeft(Right):
    def batch(self, model, tokenizer, rows):
        ids, mask, starts = super().batch(model, tokenizer, rows)
        return ids, mask, [0 for _ in starts]


class PaddingIsZero(Right):
    def batch(self, model, tokenizer, rows):
        ids, mask, starts = super().batch(model, tokenizer, rows)
        wordpiece = "token_type_ids" in tokenizer.model_input_names
        return ids, (ids != 0).long() if wordpiece else mask, starts


class Refusing(Right):
    """Fails where `when(text)`."""

    def __init__(self, when):
        super().__init__()
        self.when = when

    def explain(self, model, tokenizer, texts, target):
        if any(self.when(text) for text in texts):
            raise IndexError("list index out of range")
        return super().explain(model, tokenizer, texts, target)


class ZeroBeyond(Right):
    def explain(self, model, tokenizer, texts, target):
        rows = super().explain(model, tokenizer, texts, target)
        for text, row in zip(texts, rows, strict=True):
            end = row[-1][0][1] if row else 0
            if isinstance(text, str) and len(row) > 15:
                row += [((start, start + 1), 0.0) for start in range(end + 1, len(text) - 1)]
        return rows


class ShiftedBlanks(Right):
    def explain(self, model, tokenizer, texts, target):
        texts = [" ".join(text.split()) if isinstance(text, str) else text for text in texts]
        return super().explain(model, tokenizer, texts, target)


class CountedBytes(Right):
    """Spans from the lengths of the tokens as they are written, where they are bytes."""

    def encode(self, tokenizer, texts):
        rows = super().encode(tokenizer, texts)
        if "Ġ" not in tokenizer.get_vocab():
            return rows
        result = []
        for ids, _, owners in rows:
            end, offsets = 0, []
            for number, owner in zip(ids, owners, strict=True):
                token = tokenizer.convert_ids_to_tokens(number) if owner is not None else ""
                offsets.append((end + token.startswith("Ġ"), end + len(token)))
                end += len(token)
            result.append((ids, offsets, owners))
        return result


class StripsBothEnds(Right):
    def encode(self, tokenizer, texts):
        return [
            (ids, offsets, [None, *owners[1:-1], None]) for ids, offsets, owners in super().encode(tokenizer, texts)
        ]


class TwoBegins(Right):
    def encode(self, tokenizer, texts):
        return [
            (ids[:1] + ids[:23], [(0, 0), *offsets[:23]], [None, *owners[:23]])
            for ids, offsets, owners in super().encode(tokenizer, texts)
        ]


class NoEnd(Right):
    def encode(self, tokenizer, texts):
        return [
            (ids[:-1], offsets[:-1], owners[:-1]) if owners[-1] is None else (ids, offsets, owners)
            for ids, offsets, owners in super().encode(tokenizer, texts)
        ]


class SpecialTokensSpread(Right):
    """What the special tokens do is shared among the words."""

    def __init__(self):
        super().__init__("integrated_gradients")

    def scores(self, model, vectors, mask, types, inner, target):
        found = super().scores(model, vectors, mask, types, inner, target)
        with torch.no_grad():
            whole = self.value(model, vectors, mask, types, target)
            nothing = self.value(model, torch.zeros_like(vectors), mask, types, target)
        return [row + (float(a - b) - row.sum()) / len(row) for row, a, b in zip(found, whole, nothing, strict=True)]


class EndIsSecond(Right):
    """The token of the end gets the type of a second text."""

    def types(self, ids, rows, starts):
        types = super().types(ids, rows, starts)
        for place, (own, *_) in enumerate(rows):
            types[place, starts[place] + len(own) - 1] = 1
        return types


class FirstTextOnly(Right):
    def explain(self, model, tokenizer, texts, target):
        texts = [text if isinstance(text, str) else text[0] for text in texts]
        return super().explain(model, tokenizer, texts, target)


class InReadingOrder(Right):
    """What each word adds to those before it: one order instead of all."""

    def scores(self, model, vectors, mask, types, inner, target):
        result = []
        for row, places in enumerate(inner):
            keeps = [set(places[:count]) for count in range(len(places) + 1)]
            result.append(np.diff(self.erased(model, vectors, mask, types, row, keeps, inner, target)))
        return result


class Alone(Right):
    """What each word adds to nothing."""

    def scores(self, model, vectors, mask, types, inner, target):
        result = []
        for row, places in enumerate(inner):
            values = self.erased(model, vectors, mask, types, row, [set(), *({at} for at in places)], inner, target)
            result.append(values[1:] - values[0])
        return result


class OneStep(Right):
    def __init__(self):
        super().__init__("integrated_gradients")

    def scores(self, *arguments):
        return self.by_input_x_gradient(*arguments)


class HalfWay(Right):
    def __init__(self):
        super().__init__("input_x_gradient")

    def slope(self, model, vectors, mask, types, target):
        return super().slope(model, vectors / 2, mask, types, target)


class Leaving(Right):
    """Changes something: `change(model, tokenizer)`."""

    def __init__(self, change, **options):
        super().__init__(**options)
        self.change = change

    def __call__(self, model, tokenizer, texts, target):
        result = super().__call__(model, tokenizer, texts, target)
        self.change(model, tokenizer)
        return result


class Numpy(Right):
    def value(self, model, vectors, mask, types, target):
        return super().value(model, torch.from_numpy(vectors.detach().numpy()), mask, types, target)


def _nudge(model, tokenizer):
    if model.config.model_type == "bert":
        model.classifier.bias.data += 1e-3


def _once(scores, words):
    return [0 if words[place] in words[:place] else score for place, score in enumerate(scores)]


def _first_pieces(scores, words):
    return [0 if word in ("lov", "able") else score for word, score in zip(words, scores, strict=True)]


def _never_zero(scores, words):
    return scores if np.abs(scores).max(initial=0) > 1e-9 else scores + 1


def _something_for_all(scores, words):
    largest = np.abs(scores).max(initial=0)
    return np.where(np.abs(scores) < 1e-6 * largest, 0.2 * largest, scores)


FAULTS = {
    "answers": Unanswered(),
    "repeatable": Drifting(),
    "asks_this_model": FirstModel(),
    "class_asked_about": PredictedClass(),
    "one_label_of_several": Softmax(),
    "same_length_batch": SharedScale(),
    "repeated_text": OncePerText(),
    "batch_order": SortedByLength(),
    "padded_right": PaddingCounted(),
    "padded_left": AlwaysFromTheLeft(),
    "padding_id": PaddingIsZero(),
    "nothing_to_explain": Scaled(_never_zero),
    "dummy": Scaled(_something_for_all),
    "symmetry": Scaled(lambda scores, words: scores * (1 + 0.1 * np.arange(len(scores)))),
    "linearity": Scaled(lambda scores, words: np.sign(scores) * np.abs(scores) ** 0.5),
    "linear_model": Scaled(lambda scores, words: scores / 2),
    "completeness": OneStep(),
    "shapley_values": InReadingOrder("shapley"),
    "leave_one_out": Alone(),
    "integrated_gradients": InReadingOrder("integrated_gradients"),
    "input_x_gradient": HalfWay(),
    "one_word": Refusing(lambda text: text == "good"),
    "empty_text": Refusing(lambda text: text == ""),
    "long_text": ZeroBeyond(),
    "repeated_words": Scaled(_once),
    "word_pieces": Scaled(_first_pieces),
    "letters": ShiftedBlanks(),
    "bytes_of_words": CountedBytes(),
    "begin_token_only": StripsBothEnds(),
    "begin_token_once": TwoBegins(),
    "whole_text_read": NoEnd(),
    "special_tokens": SpecialTokensSpread(),
    "token_types": EndIsSecond(),
    "text_pair": FirstTextOnly(),
    "mode_kept": Leaving(lambda model, tokenizer: model.eval()),
    "hooks_removed": Leaving(lambda model, tokenizer: model.register_forward_hook(lambda *_: None)),
    "gradients_kept": Leaving(lambda model, tokenizer: model.zero_grad()),
    "weights_kept": Leaving(_nudge),
    "settings_kept": Leaving(lambda model, tokenizer: setattr(model.config, "output_hidden_states", True)),
    "tokenizer_kept": Leaving(lambda model, tokenizer: setattr(tokenizer, "truncation_side", "left")),
    "random_state_kept": Leaving(lambda model, tokenizer: torch.manual_seed(0)),
    "bfloat16": Numpy(),
}
