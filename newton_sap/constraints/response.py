"""What every contact law returns for a contact velocity: cost, impulse and Hessian block."""

import warp as wp


@wp.struct
class Response:
    """``gamma = -d(cost)/d(vc)`` and ``G = -d(gamma)/d(vc)``, symmetric and positive semidefinite."""

    cost: wp.float64  # [J]
    gamma: wp.vec3d  # impulse on body B, world axes [N s]
    G: wp.mat33d  # [kg]
