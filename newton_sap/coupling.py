"""SolverSAP inside Newton's coupled solvers: effective masses of articulated bodies, and proxies of other solvers' bodies."""

from __future__ import annotations

from types import SimpleNamespace

import newton
import numpy as np
import warp as wp

from .at_rest import keep_motion, place_at_rest
from .bodies import rotate
from .boundary.topology import FREELY, body_name, joint_name, mass_block
from .inspection import read_mass_matrices
from .multibody.efforts import gravity_at
from .multibody.gyroscopic import ALONE, gyroscopic_impulse
from .multibody.spatial import to_quatd, to_vec3d
from .workspace import Bodies

wp.set_module_options({"enable_backward": False})

_Flags = newton.ModelFlags

IMMOBILE = 1e-6
"""A Jacobian this small against its terms is rounding: the joints cannot move the point."""


@wp.kernel
def cancel_gyroscopic_torque(
    proxy: wp.array[wp.int32],
    bodies: Bodies,
    body_q: wp.array[wp.transform],
    body_qd: wp.array[wp.spatial_vector],
    symplectic: int,
    dt: wp.float64,
    body_f: wp.array[wp.spatial_vector],
):
    """Take the gyroscopic torque from the load of each proxy: its owner has already turned it, so that only contacts should."""
    body = wp.tid()
    if proxy[body] < 0:
        return
    rotation = to_quatd(wp.transform_get_rotation(body_q[body]))
    w = to_vec3d(wp.spatial_bottom(body_qd[body]))
    spin = wp.quat_rotate(rotation, wp.mat33d(bodies.inertia[body]) * wp.quat_rotate_inv(rotation, w))
    torque = wp.cross(w, spin)
    if symplectic == 1:
        torque -= gyroscopic_impulse(bodies, body, rotation, w, ALONE, dt) / dt
    body_f[body] = body_f[body] + wp.spatial_vector(wp.vec3(0.0), wp.vec3(torque))


@wp.kernel
def tell_gravity(bodies: Bodies, acceleration: wp.array[wp.vec3]):
    """The gravity that a step applies to each body."""
    body = wp.tid()
    acceleration[body] = wp.vec3(gravity_at(bodies, body))


class CoupledArticulations(newton.solvers.experimental.coupled.CouplingInterface):
    """What coupled solvers ask: effective masses of points of articulated bodies, and bodies that stand for others'."""

    def coupling_effective_mass_refresh_flags(self) -> int:
        """Return the model flags after which the effective masses change."""
        return int(
            _Flags.BODY_INERTIAL_PROPERTIES
            | _Flags.BODY_PROPERTIES
            | _Flags.JOINT_PROPERTIES
            | _Flags.JOINT_DOF_PROPERTIES
            | _Flags.JOINT_DOF_INERTIAL_PROPERTIES
        )

    def coupling_supports_inertial_property_refresh(self) -> bool:
        """Return True: masses and inertias are read live, so a captured graph may change them."""
        return True

    def coupling_eval_gravity_acceleration(self, out_body_acceleration, out_particle_acceleration) -> None:
        """Write the gravity [m/s^2] that acts on bodies, less what ``mujoco:gravcomp`` takes off, and on particles."""
        super().coupling_eval_gravity_acceleration(None, out_particle_acceleration)
        if out_body_acceleration is not None:
            inputs = [self.bodies, out_body_acceleration]
            self.launches.single(tell_gravity, out_body_acceleration.shape[0], inputs)

    def coupling_eval_effective_mass(self, endpoint_kind, endpoint_index, endpoint_local_pos, out) -> None:
        """Write effective masses [kg]: for a point of a body, ``1 / mean over axes of J M^-1 J^T``.

        The mass matrix ``M`` is the model's at ``joint_q``, armatures included; constraints do not stiffen it, closed loops
        among them. A point that no joint moves keeps the mass of its body, particles theirs. Reads the device.

        Args:
            endpoint_kind: ``EndpointKind`` of each endpoint.
            endpoint_index: Bodies or particles.
            endpoint_local_pos: Offsets of the points from the COM, in body axes [m].
            out: Effective masses [kg].
        """
        super().coupling_eval_effective_mass(endpoint_kind, endpoint_index, endpoint_local_pos, out)
        self._overwrite(out, endpoint_kind, endpoint_index, endpoint_local_pos, lambda body, weights: 1 / weights[0])

    def coupling_eval_effective_mass_block(
        self, endpoint_kind, endpoint_index, endpoint_local_pos, out_mass, out_inertia=None
    ) -> None:
        """Write effective masses and, if asked for, inertias: the body's own, scaled by how much harder it is to turn.

        Args:
            endpoint_kind: ``EndpointKind`` of each endpoint.
            endpoint_index: Bodies or particles.
            endpoint_local_pos: Offsets of the points from the COM, in body axes [m].
            out_mass: Effective masses [kg].
            out_inertia: Inertias in body axes [kg m^2], never below the body's own.
        """
        super().coupling_eval_effective_mass_block(
            endpoint_kind, endpoint_index, endpoint_local_pos, out_mass, out_inertia
        )
        if out_inertia is None or out_inertia.shape[0] == 0:
            return
        inertia = self.model.body_inertia.numpy().astype(float)

        def effective(body, weights):
            own = inertia[body]
            if weights[1] <= 0.0 or np.linalg.det(own) <= 0.0:
                return own
            return own * max(np.trace(np.linalg.inv(own)) / 3.0 / weights[1], 1.0)

        self._overwrite(out_inertia, endpoint_kind, endpoint_index, endpoint_local_pos, effective)

    def coupling_rewind_proxy_body(
        self, body_local_to_proxy_global, state, coupling_forces, body_gravity_acceleration, dt
    ) -> None:
        """Load each proxy with what keeps its velocity but for contacts: less gravity, gyroscopic torque, old feedback.

        Raises:
            NotImplementedError: A joint of this solver moves a proxy, whose pose arrives without joint coordinates.
        """
        self._require_unjointed(body_local_to_proxy_global)
        super().coupling_rewind_proxy_body(
            body_local_to_proxy_global, state, coupling_forces, body_gravity_acceleration, dt
        )
        if body_local_to_proxy_global.shape[0] and state.body_f is not None:
            inputs = [body_local_to_proxy_global, self.bodies, state.body_q, state.body_qd]
            inputs += [int(self.options.position_update == "symplectic"), dt, state.body_f]
            self.launches.single(cancel_gyroscopic_torque, body_local_to_proxy_global.shape[0], inputs)

    def coupling_harvest_proxy_wrenches(
        self, body_local_to_proxy_global, out_body_f, *, body_qd_before, state, state_out, contacts, dt
    ) -> None:
        """Add what turned and moved each proxy to its feedback [N, N m], with the inertia at the start of the step."""
        super().coupling_harvest_proxy_wrenches(
            body_local_to_proxy_global,
            out_body_f,
            body_qd_before=body_qd_before,
            state=state,
            # The step's impulses acted on the inertia of this pose; with that of the next they would not balance.
            state_out=SimpleNamespace(body_q=state.body_q, body_qd=state_out.body_qd),
            contacts=contacts,
            dt=dt,
        )

    def _require_unjointed(self, proxies) -> None:
        """Refuse proxies that joints of this solver move; a map is read once, and not while a graph is recorded."""
        if proxies.ptr in self._known_proxies or (self.device.is_cuda and self.device.is_capturing):
            return
        arrays = self.topology.arrays
        for body in np.flatnonzero(proxies.numpy() >= 0):
            link = arrays["body_link"][body]
            if link >= 0 and arrays["link_joint"][link] != FREELY:
                raise NotImplementedError(
                    f"{body_name(self.model, body)} is a proxy that {joint_name(self.model, arrays['link_joint'][link])} "
                    "moves; SolverSAP takes proxies of bodies without their joints: leave joints out of the Proxy"
                )
        self._known_proxies[proxies.ptr] = proxies  # kept, so that no other map gets their address

    def _overwrite(self, out, kinds, indices, offsets, value) -> None:
        """Replace the entries of bodies that joints move by ``value(body, (1 / mass, 1 / inertia))``."""
        weights = _inverse_weights(self, kinds.numpy(), indices.numpy(), offsets.numpy().astype(float))
        if weights:
            values = out.numpy()
            bodies = indices.numpy()
            for row, pair in weights.items():
                values[row] = value(bodies[row], pair)
            out.assign(values)


def _inverse_weights(solver, kinds, bodies, offsets) -> dict[int, tuple[float, float]]:
    """Mean inverse mass and inertia of each endpoint that joints move, by row."""
    arrays, motion = solver.topology.arrays, solver.motion
    rows = [
        row
        for row in np.flatnonzero(kinds == int(solver.EndpointKind.BODY))
        if 0 <= bodies[row] < solver.model.body_count and arrays["body_link"][bodies[row]] >= 0
    ]
    if not rows:
        return {}
    with keep_motion(solver):
        place_at_rest(solver)
        columns, com, rotation = (array.numpy().copy() for array in (motion.column, motion.com, motion.rotation))
        locked, blocks = motion.locked.numpy().copy(), read_mass_matrices(solver).copy()
    inverses: dict[int, np.ndarray] = {}
    out = {}
    for row in rows:
        link = arrays["body_link"][bodies[row]]
        tree = arrays["link_tree"][link]
        path = arrays["path_dof"][arrays["link_path_start"][link] + locked[tree] : arrays["link_path_start"][link + 1]]
        if len(path) == 0:
            continue
        first = arrays["tree_dof_start"][tree]
        if tree not in inverses:
            inverses[tree] = np.linalg.inv(mass_block(arrays, blocks, tree, locked[tree]))
        free = path - first - locked[tree]
        response = inverses[tree][np.ix_(free, free)]
        point = com[link] + rotate(rotation[link], offsets[row])
        angular, linear = columns[path, :3].T, columns[path, 3:].T
        velocity = linear - np.cross(point, angular, axisb=0, axisc=0)
        size = np.linalg.norm(linear) + np.linalg.norm(point) * np.linalg.norm(angular)
        if np.linalg.norm(velocity) > IMMOBILE * size:
            out[int(row)] = (
                np.trace(velocity @ response @ velocity.T) / 3,
                np.trace(angular @ response @ angular.T) / 3,
            )
    return out
