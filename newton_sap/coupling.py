"""SolverSAP inside Newton's coupled solvers: what it tells them about its articulations, and what it refuses."""

from __future__ import annotations

import newton
import numpy as np

from .boundary.convention import skew

_Flags = newton.ModelFlags

IMMOBILE = 1e-6
"""A Jacobian this small against its terms is rounding: the joints cannot move the point."""


class CoupledArticulations(newton.solvers.experimental.coupled.CouplingInterface):
    """Effective masses of articulated bodies; a body proxy of another solver needs maximal coordinates and is refused."""

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

    def coupling_eval_effective_mass(self, endpoint_kind, endpoint_index, endpoint_local_pos, out) -> None:
        """Write effective masses [kg]: for a point of a body, ``1 / mean over axes of J M^-1 J^T``.

        ``M`` holds armatures and is that of ``model.joint_q``; loop-closing joints, drives, limits and contacts do not
        count. A point that no joint moves keeps the mass of its body, particles theirs. Reads the device.

        Args:
            endpoint_kind: ``EndpointKind`` of each endpoint.
            endpoint_index: Bodies or particles.
            endpoint_local_pos: Offsets of the points from the COM, in body axes [m].
            out: Effective masses [kg].
        """
        super().coupling_eval_effective_mass(endpoint_kind, endpoint_index, endpoint_local_pos, out)
        self._overwrite(out, endpoint_kind, endpoint_index, endpoint_local_pos, lambda mass, body, weights: 1 / weights[0])

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

        def effective(present, body, weights):
            own = inertia[body]
            if weights[1] <= 0.0 or np.linalg.det(own) <= 0.0:
                return own
            return own * max(np.trace(np.linalg.inv(own)) / 3.0 / weights[1], 1.0)

        self._overwrite(out_inertia, endpoint_kind, endpoint_index, endpoint_local_pos, effective)

    def coupling_rewind_proxy_body(
        self, body_local_to_proxy_global, state, coupling_forces, body_gravity_acceleration, dt
    ) -> None:
        """Refuse to be the destination of a body proxy, whose pose arrives without joint coordinates."""
        raise NotImplementedError("SolverSAP cannot be the destination of a body proxy; make it the source")

    def coupling_harvest_proxy_wrenches(
        self, body_local_to_proxy_global, out_body_f, *, body_qd_before, state, state_out, contacts, dt
    ) -> None:
        """Refuse to be the destination of a body proxy."""
        raise NotImplementedError("SolverSAP cannot be the destination of a body proxy; make it the source")

    def _overwrite(self, out, kinds, indices, offsets, value) -> None:
        """Replace the entries of bodies that joints move by ``value(present, body, (1 / mass, 1 / inertia))``."""
        weights = _inverse_weights(self, kinds.numpy(), indices.numpy(), offsets.numpy().astype(float))
        if weights:
            values = out.numpy()
            bodies = indices.numpy()
            for row, pair in weights.items():
                values[row] = value(values[row], bodies[row], pair)
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
    solver._place_at_rest()
    columns, com, rotation = motion.column.numpy(), motion.com.numpy(), motion.rotation.numpy()
    locked, blocks = motion.locked.numpy(), motion.A.numpy()
    inverses: dict[int, np.ndarray] = {}
    out = {}
    for row in rows:
        link = arrays["body_link"][bodies[row]]
        tree = arrays["link_tree"][link]
        path = arrays["path_dof"][arrays["path_start"][link] + locked[tree] : arrays["path_start"][link + 1]]
        if len(path) == 0:
            continue
        first = arrays["tree_dof_start"][tree]
        if tree not in inverses:
            inverses[tree] = _inverse_mass_matrix(arrays, blocks, tree, locked[tree])
        free = path - first - locked[tree]
        response = inverses[tree][np.ix_(free, free)]
        point = com[link] + _turn(rotation[link], offsets[row])
        angular, linear = columns[path, :3].T, columns[path, 3:].T
        velocity = linear - skew(point) @ angular
        size = np.linalg.norm(linear) + np.linalg.norm(point) * np.linalg.norm(angular)
        if np.linalg.norm(velocity) > IMMOBILE * size:
            out[int(row)] = (np.trace(velocity @ response @ velocity.T) / 3, np.trace(angular @ response @ angular.T) / 3)
    return out


def _inverse_mass_matrix(arrays, blocks, tree, locked) -> np.ndarray:
    """Inverse of the free part of a tree's mass matrix."""
    size = arrays["tree_dof_start"][tree + 1] - arrays["tree_dof_start"][tree]
    start = arrays["tree_block_start"][tree]
    return np.linalg.inv(blocks[start : start + size * size].reshape(size, size)[locked:, locked:])


def _turn(q, x) -> np.ndarray:
    """Rotate a vector by a quaternion (xyzw)."""
    t = 2.0 * np.cross(q[:3], x)
    return x + q[3] * t + np.cross(q[:3], t)
