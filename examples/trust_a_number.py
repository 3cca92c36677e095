"""May this model be asked about erased texts? If not, a metric may measure confusion in place of faithfulness.

python examples/trust_a_number.py
"""

import troth

model = troth.load_model("embedded")
data = list(troth.load_data("reviews"))
tested, references = data[:20], data[20:]  # references are inputs of the kind that the model was trained on
print("\n".join(troth.check(model, tested, references, ["random", "leave_one_out"]).answer()))
