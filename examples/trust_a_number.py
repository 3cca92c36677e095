"""Check whether erased texts are in distribution for a model.

If they are not, a metric may measure the effect of unusual inputs instead of faithfulness.

python examples/trust_a_number.py
"""

import troth

model = troth.load_model("embedded")
data = list(troth.load_data("reviews"))
tested, references = data[:20], data[20:]  # references should be like the training data
print("\n".join(troth.check(model, tested, references, ["random", "leave_one_out"]).answer()))
