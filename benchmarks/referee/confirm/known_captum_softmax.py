"""captum#519: DeepLift's scores through a softmax layer do not sum to the difference of the outputs."""

import torch
from _tiny import say
from captum.attr import DeepLift

torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3), torch.nn.Softmax(-1)
).eval()
given, baseline = torch.randn(1, 4), torch.zeros(1, 4)
scores = DeepLift(network).attribute(given, baseline, target=1)
rise = float((network(given) - network(baseline))[0, 1].detach())
total = float(scores.sum().detach())
say(
    abs(total - rise) > 0.02 * max(abs(rise), abs(total)),
    f"the scores sum to {total:.4f}, the output rises by {rise:.4f}",
)
