"""The doctor: what BatchNorm's running statistics cost a network, layer by layer, and the repair.

For any `torch.nn.Module` with BatchNorm; the network is only read. `docs/doctor.md` says what is
measured and how.
"""

from bntricks.doctor.accuracy import Counterfactual, Difference
from bntricks.doctor.diagnosis import Diagnosis, Repair, diagnose, repair
from bntricks.doctor.gap import Remedy
from bntricks.doctor.groups import Group, mixed
from bntricks.doctor.layers import Layer
from bntricks.doctor.verdict import Verdict

__all__ = [
    "Counterfactual",
    "Diagnosis",
    "Difference",
    "Group",
    "Layer",
    "Remedy",
    "Repair",
    "Verdict",
    "diagnose",
    "mixed",
    "repair",
]
