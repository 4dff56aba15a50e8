"""A plain PyTorch model, trained by hand on a biased stream: what is wrong with it, and the repair.

The loop is a common one: in the second task, every step learns from a batch of the new classes and
replays a batch of the old ones. Both forwards move φ, so half of φ comes from the new classes,
though they are only a third of all classes.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)  # a network this small is slower on several threads
old, new = torch.arange(4), torch.arange(4, 6)
centres = 0.7 * torch.randn(6, 20)
centres[new] += 2 * torch.randn(20)
net = nn.Sequential(
    *(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU()),
    *(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 6)),
)
optimiser = torch.optim.SGD(net.parameters(), lr=0.03)


def batch(classes):
    y = classes[torch.randint(len(classes), (64,))]
    return centres[y] + torch.randn(64, 20), y


for task in ([old], [old, new]):
    for _ in range(300):
        optimiser.zero_grad()
        for classes in task:
            x, y = batch(classes)
            F.cross_entropy(net(x), y).backward()
        optimiser.step()

# From here on it could be any model.
from bntricks import diagnose, mixed, recalibrate  # noqa: E402

groups = {"old": [batch(old) for _ in range(50)], "new": [batch(new) for _ in range(25)]}
diagnosis = diagnose(net, groups)
print(diagnosis)

recalibrate(net, mixed(groups))
print("after recalibration:", diagnose(net, groups).verdict.headline)
