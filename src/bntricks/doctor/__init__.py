"""The doctor: what BatchNorm's running statistics cost a network, layer by layer, and the repair.

It takes any `torch.nn.Module` with BatchNorm, and only reads it. `docs/doctor.md` explains what is
measured and how.
"""

from bntricks.doctor.accuracy import Counterfactual, Difference
from bntricks.doctor.balanced import mixed
from bntricks.doctor.diagnosis import Diagnosis, diagnose
from bntricks.doctor.gap import Remedy
from bntricks.doctor.groups import Group
from bntricks.doctor.layers import Layer
from bntricks.doctor.preprocessing import InputChange
from bntricks.doctor.repair import Repair, repair
from bntricks.doctor.verdict import Verdict

__all__ = [
    "Counterfactual",
    "Diagnosis",
    "Difference",
    "Group",
    "InputChange",
    "Layer",
    "Remedy",
    "Repair",
    "Verdict",
    "diagnose",
    "mixed",
    "repair",
]
