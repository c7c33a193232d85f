"""Trees of many unknowns, to which contacts add inertia: the same Newton steps as the reference's dense products, and the same rest."""

import newton
import numpy as np
import pytest
import random_models as rm
from test_against_reference import assert_same_step

from newton_sap import SolverSAP
from newton_sap.boundary import matrices

SCENES = {
    "one": dict(joint_count=40, max_depth=40),
    "two long": dict(joint_count=35, max_depth=20, tree_count=2, root_kinds=("free",)),
    "long and short": dict(joint_count=(4, 60), max_depth=30, tree_count=4),
    "kinematic": dict(joint_count=60, max_depth=60, kinematic_root=True, root_kinds=("free", "d6")),
}


def scene(name, seed):
    """A random model of the name's kind, with contacts among trees, with the ground and within a tree."""
    model = rm.random_tree_model(seed, friction=True, **SCENES[name])
    state, control = rm.random_state(model, seed), rm.random_control(model, seed)
    assert SolverSAP(model).topology.has_long_trees
    return model, state, control, rm.random_contacts(model, state, seed, count=40)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SCENES)
def test_one_newton_step_is_that_of_the_dense_hessian(name, seed):
    """Contacts of one body, of two trees and of two bodies of a tree add what their Jacobians' products are."""
    assert assert_same_step(*scene(name, seed), friction_bound="start", max_iterations=1).gamma


@pytest.mark.parametrize("how", ["mixed", "in blocks", pytest.param("with spin", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    ["long and short", *(pytest.param(name, marks=pytest.mark.slow) for name in SCENES if name != "long and short")],
)
def test_minima_are_the_same(name, how, monkeypatch):
    """A float32 Hessian, blocks and conjugate gradients, and rows of spin friction lead to the reference's minimum."""
    options = {"friction_bound": "start", "max_iterations": 200}
    if how == "mixed":
        options["precision"] = "mixed"
    elif how == "with spin":
        options["spin_friction"] = True
    else:
        monkeypatch.setattr(matrices, "DIRECT_DOFS", 0)
        monkeypatch.setattr(matrices, "LONG_PART", 0)
    assert assert_same_step(*scene(name, 1), **options).gamma


def test_a_tree_that_is_long_no_more_forgets_its_inertias():
    """With its root made kinematic, 44 of 50 dofs are left, and a Newton step is that of a solver that never knew more."""
    kinds = dict(root_kinds=("free",), inner_kinds=("revolute",))
    model = rm.random_tree_model(0, joint_count=45, max_depth=45, tree_count=2, **kinds)
    assert model.joint_dof_count == 2 * 50
    state, control = rm.random_state(model, 0), rm.random_control(model, 0)
    contacts, options = rm.random_contacts(model, state, 0, count=20), {"friction_bound": "start", "max_iterations": 1}
    knew = SolverSAP(model, **options)
    knew.step(state, model.state(), control, contacts, 0.01)
    assert knew.problem.added_inertia.numpy()[: 45 * 36].any()
    flags = model.body_flags.numpy()
    flags[0] = newton.BodyFlags.KINEMATIC
    model.body_flags.assign(flags)
    knew.notify_model_changed(newton.ModelFlags.BODY_PROPERTIES)
    v = []
    for solver in (knew, SolverSAP(model, **options)):
        solver.step(state, model.state(), control, contacts, 0.01)
        v.append(solver.inspect().v)
    np.testing.assert_allclose(v[0], v[1], rtol=0.0, atol=1e-9 * np.abs(v[1]).max())
