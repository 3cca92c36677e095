"""A class typed at a prompt or in a notebook, where it has no file, explains and is known by its code."""

import json
import subprocess
import sys

import pytest

IMPORTS = """
import json
from dataclasses import dataclass
import numpy as np
import troth
from troth.core.hashing import fingerprint
from troth.core.types import Attribution
from troth.explainers import SignedExplainer
"""
CODE = """
@dataclass(frozen=True)
class Constant(SignedExplainer):
    def ask(self, question):
        yield from ()
        return Attribution(question, np.full(question.n_units, {score}), signed=self.signed)

found = troth.explain(lambda texts: [[0.3, 0.7]] * len(texts), "a good film", Constant(), progress=False)
print(json.dumps([found[0].scores.tolist(), fingerprint(Constant())]))
"""


def typed(*scores):
    """What classes typed into one process give, and how they are known: a pair for each."""
    code = IMPORTS + "".join(CODE.format(score=score) for score in scores)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.full
def test_a_typed_class_explains_and_other_code_is_another_method():
    (scores, first), (others, second) = typed(2.0, 3.0)
    ((_, again),) = typed(2.0)
    assert scores == [2.0] * 3
    assert others == [3.0] * 3
    assert first == again
    assert first != second
