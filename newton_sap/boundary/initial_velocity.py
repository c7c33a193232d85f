"""Initial velocities that a model's author gave to bodies only.

Newton's maximal-coordinate solvers start from ``ModelBuilder.body_qd``; this one moves joints and reads ``joint_qd``. A
model may set the first and leave the second zero. While a state still is the model's initial one in both and where it is, the
free joint's velocity is taken from the body, so that such scenes start the same under every solver.
"""

from __future__ import annotations

import numpy as np
import warp as wp

from .topology import FLYING

wp.set_module_options({"enable_backward": False})


def joints_that_adopt_body_velocity(model, topology) -> np.ndarray:
    """Return the free root joints whose initial ``joint_qd`` is zero while their body's ``body_qd`` is not."""
    if model.joint_qd is None or model.body_qd is None:
        return np.zeros(0, dtype=np.int32)
    roots = topology.arrays["link_joint"][topology.arrays["tree_link_start"][:-1]]
    types, start = model.joint_type.numpy(), model.joint_qd_start.numpy()
    joint_qd, body_qd, child = model.joint_qd.numpy(), model.body_qd.numpy(), model.joint_child.numpy()
    return np.array(
        [
            j
            for j in roots
            if j >= 0 and types[j] in FLYING and not joint_qd[start[j] : start[j] + 6].any() and body_qd[child[j]].any()
        ],
        dtype=np.int32,
    )


@wp.kernel
def adopt_body_velocity(
    joints: wp.array[wp.int32],
    joint_child: wp.array[wp.int32],
    joint_q_start: wp.array[wp.int32],
    joint_qd_start: wp.array[wp.int32],
    joint_X_p: wp.array[wp.transform],
    initial: wp.array[wp.spatial_vector],
    initial_q: wp.array[wp.float32],
    body_qd: wp.array[wp.spatial_vector],
    joint_q: wp.array[wp.float32],
    joint_qd: wp.array[wp.float32],
):
    """joint_qd = body_qd in parent-anchor axes, where joint_qd is zero and body_qd and joint_q still are the model's."""
    joint = joints[wp.tid()]
    body = joint_child[joint]
    start = joint_qd_start[joint]
    V = body_qd[body]
    for i in range(6):
        if joint_qd[start + i] != 0.0 or V[i] != initial[body][i]:
            return
    first = joint_q_start[joint]
    for k in range(first, joint_q_start[joint + 1]):
        if joint_q[k] != initial_q[k]:
            return
    anchor = wp.transform_get_rotation(joint_X_p[joint])
    v = wp.quat_rotate_inv(anchor, wp.spatial_top(V))
    w = wp.quat_rotate_inv(anchor, wp.spatial_bottom(V))
    for i in range(3):
        joint_qd[start + i] = v[i]
        joint_qd[start + 3 + i] = w[i]


class InitialVelocities:
    """The free joints of a model that may take their velocity from a body."""

    def __init__(self, model, topology):
        self._model = model
        joints = joints_that_adopt_body_velocity(model, topology)
        self._joints = wp.array(joints, dtype=wp.int32, device=model.device)
        self.kernels = [adopt_body_velocity] if len(joints) else []
        """What a step launches for them."""
        self._initial = [wp.clone(model.body_qd), wp.clone(model.joint_q)] if len(joints) else []

    def adopt(self, launches, state, joint_qd) -> None:
        """Where the model gives a free body its velocity through ``body_qd`` alone, put that into a state's ``joint_qd``."""
        if self.kernels and getattr(state, "joint_qd_order", "public") == "public":
            model = self._model
            inputs = [self._joints, model.joint_child, model.joint_q_start, model.joint_qd_start, model.joint_X_p]
            inputs += [*self._initial, state.body_qd, state.joint_q, joint_qd]
            launches.single(adopt_body_velocity, len(self._joints), inputs)
