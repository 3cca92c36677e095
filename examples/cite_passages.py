"""Which passages does a language model's answer rest on?

python examples/cite_passages.py MODEL        MODEL is the folder or hub name of an instruction-tuned model
"""

import sys

import troth

passages = {
    "guide": "The vault is below the library. Its secret word is marigold.",
    "history": "The library was built by two brothers and burned down twice.",
    "animals": "Penguins live in the south and cannot fly.",
    "rivers": "The river flows north and freezes in winter.",
}
found = troth.cite(sys.argv[1], "What is the secret word?", passages, "The secret word is marigold.")
print("cited:", list(found.cited), "scores:", [round(float(score), 2) for score in found.scores])
