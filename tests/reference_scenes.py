"""Small hand-made scenes for the tests of the reference."""

from __future__ import annotations

import newton
import numpy as np
import random_models as rm
import warp as wp
from rig import tight

from newton_sap.reference import ReferenceSolver

G = 9.81
UPDATES = ("symplectic", "sap_euler", "midpoint")
TIGHT = tight(optimality_rel=1e-11, max_iterations=40)
"""Iterate until round-off."""


def snapshot(solver, state, control=None):
    m = solver.read(state, control)
    return m, solver.to_sap(m, m.q, m.qd)


def bare_tree(seed, **kwargs):
    """A random tree without springs, damping, limits and drives."""
    off = dict(springs=False, damping=False, limits=False, drives=False, **kwargs)
    return rm.random_tree_model(seed, **{"joint_count": 7, "descendant_free": True, **off})


def inertia(diagonal):
    return wp.mat33(*np.diag(np.broadcast_to(diagonal, 3)).flatten())


def one_axis_model(kind="revolute", mass=1.0, moment=1.0, gravity=(0.0, 0.0, 0.0), **axis):
    """One body on a single axis z through its center of mass, armature-free unless given."""
    builder = newton.ModelBuilder(gravity=gravity)
    body = builder.add_link(mass=mass, inertia=inertia(moment), lock_inertia=True)
    add = builder.add_joint_revolute if kind == "revolute" else builder.add_joint_prismatic
    builder.add_articulation([add(parent=-1, child=body, axis=newton.Axis.Z, **axis)])
    return builder.finalize()


def free_bodies(count=1, mass=2.0, moment=0.1, com=(0.0, 0.0, 0.0), gravity=(0.0, 0.0, 0.0), static=True, **material):
    """Free spheres, shape i on body i, and a static plane as the last shape."""
    builder = newton.ModelBuilder(gravity=gravity)
    cfg = newton.ModelBuilder.ShapeConfig(density=0.0, **{"ke": 1e4, "kd": 0.0, "mu": 0.5, **material})
    for _ in range(count):
        body = builder.add_link(mass=mass, com=wp.vec3(*com), inertia=inertia(moment), lock_inertia=True)
        builder.add_articulation([builder.add_joint_free(child=body)])
        builder.add_shape_sphere(body, radius=0.1, cfg=cfg)
    if static:
        builder.add_shape_plane(plane=(0.0, 0.0, 1.0, 0.0), width=0.0, length=0.0, cfg=cfg)
    return builder.finalize()


def plane_contact(model, state, body=0, phi=0.0, n=(0.0, 0.0, 1.0), **allocate):
    """One contact at the body's center of mass, shape 0 the plane."""
    contacts = newton.Contacts(4, 0, **allocate)
    body_q = state.body_q.numpy().astype(float)
    center = rm.transform_point(body_q[body], model.body_com.numpy()[body])
    # The midpoint is half the gap below the center, so that body 1's own surface point is the center.
    point = center - 0.5 * phi * np.asarray(n)
    rm.write_contacts(contacts, [rm.contact_row((model.shape_count - 1, body), (-1, body), body_q, point, n, phi)])
    return contacts


def set_velocity(model, state, qd):
    state.joint_qd.assign(np.asarray(qd, np.float32))
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)


def random_case(seed, *, model_options=None, contact_options=None, dt=0.01, **options):
    """One step of a random scene with every constraint kind."""
    model = rm.random_tree_model(
        seed, **{"joint_count": 5, "tree_count": 2, "descendant_free": True, **(model_options or {})}
    )
    state, control = rm.random_state(model, seed), rm.random_control(model, seed)
    contacts = rm.random_contacts(model, state, seed, **(contact_options or {}))
    solver = ReferenceSolver(model, **options)
    return model, state, control, contacts, solver, solver.step(state, control, contacts, dt)
