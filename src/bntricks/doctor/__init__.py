"""The doctor: what BatchNorm's running statistics cost a network, layer by layer, and the repair.

For any `torch.nn.Module` with BatchNorm; the network is only read. `docs/doctor.md` says what is
measured and how.
"""

from bntricks.doctor.diagnosis import Counterfactual, Diagnosis, Difference, Layer, Verdict
from bntricks.doctor.examine import diagnose, repair
from bntricks.doctor.groups import Group, mixed

__all__ = [
    "Counterfactual",
    "Diagnosis",
    "Difference",
    "Group",
    "Layer",
    "Verdict",
    "diagnose",
    "mixed",
    "repair",
]
