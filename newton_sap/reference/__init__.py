"""The whole SAP step in plain NumPy float64: slow, dense, and written to be read.

It is the oracle of the Warp kernels and shares no code with them: every formula is written out again from
``docs/formulation.md``. Nothing here is tuned for speed; each step rebuilds everything from the model's arrays. :mod:`.step`
builds the constraints and puts the step together, :mod:`.multibody` holds kinematics and free motion (:mod:`.tension` and
:mod:`.change` parts of it), :mod:`.edges` what contacts are passed over, :mod:`.shapes` what shapes fill, :mod:`.couplings` what closes loops, :mod:`.hung` what hangs on it, :mod:`.rods` what cables do,
:mod:`.convex` the laws and the minimiser, :mod:`.hunt_crossley` the normal law of two of them.
"""

from .basics import quat_exp, quat_inverse, quat_log, quat_matrix, quat_mul
from .convex import (
    Contact,
    ConvexProblem,
    Row,
    Solution,
    Spin,
    clamped_linear,
    friction_cone,
    lagged,
    limit_gains,
    minimize,
    regularization,
    similar,
    spin_friction,
)
from .hunt_crossley import HuntCrossley
from .line_search import line_search
from .step import ReferenceResult, ReferenceSolver

__all__ = [
    "Contact",
    "ConvexProblem",
    "HuntCrossley",
    "ReferenceResult",
    "ReferenceSolver",
    "Row",
    "Solution",
    "Spin",
    "clamped_linear",
    "friction_cone",
    "lagged",
    "limit_gains",
    "line_search",
    "minimize",
    "quat_exp",
    "quat_inverse",
    "quat_log",
    "quat_matrix",
    "quat_mul",
    "regularization",
    "similar",
    "spin_friction",
]
