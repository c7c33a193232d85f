"""Continuation in stiffness: the similar model converges on stiff cones, to the minimum of the problem as given."""

import newton
import numpy as np
import pytest
import random_models as rm

from newton_sap import SolverSAP
from newton_sap.minimizer.continuation import PATIENCE

WORLDS = 40
STIFFNESS = 1.0e11
DT = 0.01


class Stiff:
    """Random trees whose contacts start millimetres deep at a stiffness that no step resolves, damped as in Drake."""

    def __init__(self):
        builder, rows, states = newton.ModelBuilder(), [], []
        for i in range(WORLDS):
            part = rm.random_tree_builder(i, (1, 5), tree_count=3)
            alone = part.finalize()
            state = rm.random_state(alone, i)
            states.append({name: getattr(state, name).numpy() for name in rm.STATE_ARRAYS})
            for row in rm.random_contact_rows(alone, state, np.random.default_rng(i), 3 + i % 8, welded=False):
                shapes = {f"shape{side}": row[f"shape{side}"] + builder.shape_count for side in (0, 1)}
                rows.append({**row, **shapes})
            builder.add_world(part)
        self.model = builder.finalize()
        for name, value in (("ke", STIFFNESS), ("kd", 1e-3 * STIFFNESS), ("mu", 0.9)):
            getattr(self.model, f"shape_material_{name}").fill_(value)
        self.state, self.contacts = self.model.state(), newton.Contacts(len(rows), 0)
        for name in rm.STATE_ARRAYS:
            getattr(self.state, name).assign(np.concatenate([s[name] for s in states]))
        rm.write_contacts(self.contacts, rows)

    def step(self, patience=PATIENCE, **options):
        """Return the report and the velocities after a step with another patience."""
        solver, out = SolverSAP(self.model, hunt_crossley_dissipation=50.0, **options), self.model.state()
        solver._settings.patience = patience
        solver.step(self.state, out, None, self.contacts, DT)
        return solver.report(), out.joint_qd.numpy(), solver.pools.contacts.normal_law.numpy()


@pytest.fixture(scope="module")
def stiff():
    """One scene for all tests."""
    return Stiff()


def test_what_creeps_is_solved_soft_first(stiff):
    """All worlds converge, some of which did not in as many iterations."""
    report, *_ = stiff.step(contact_model="similar")
    patient, *_ = stiff.step(patience=-1, contact_model="similar")
    assert report.healthy, str(report)
    assert report.iterations.max() > PATIENCE
    assert patient.iterations.max() > report.iterations.max()


def test_answer_is_that_of_the_problem_as_given(stiff):
    """Softening changes the way, neither the end nor the stiffness that is left behind."""
    report, v, law = stiff.step(contact_model="similar")
    patient, truth, given = stiff.step(patience=-1, contact_model="similar", max_iterations=3000)
    assert patient.healthy
    assert np.count_nonzero(report.iterations > PATIENCE) > 0
    np.testing.assert_array_equal(law, given)
    speed = np.abs(truth).max()
    np.testing.assert_allclose(v, truth, rtol=1e-4, atol=1e-5 * speed)


def test_stiffness_is_whole_again_where_the_limit_comes_first(stiff):
    """A solve that ends while softened leaves the contacts' law as it was and says that it failed."""
    report, _, law = stiff.step(contact_model="similar", max_iterations=PATIENCE + 1)
    _, _, given = stiff.step(patience=-1, contact_model="similar", max_iterations=PATIENCE + 1)
    assert np.count_nonzero(report.iterations > PATIENCE) > 0
    assert not report.healthy
    np.testing.assert_array_equal(law, given)


@pytest.mark.parametrize("law", ["sap", "lagged"])
def test_other_laws_are_never_softened(stiff, law):
    """Only the similar model creeps."""
    assert SolverSAP(stiff.model, contact_model=law)._settings.patience < 0


def test_a_line_search_ends_at_its_limit(stiff):
    """Shorter searches make more steps, down to the same minimum."""
    most = 3
    report, velocity, _ = stiff.step(contact_model="sap")
    short, found, _ = stiff.step(contact_model="sap", line_search_max_iterations=most)
    assert report.line_search_evaluations.max() > 3 * most
    assert (report.line_search_evaluations > most * report.iterations).any()
    assert (short.line_search_evaluations <= most * short.iterations).all()
    assert short.iterations.sum() >= report.iterations.sum()
    assert short.healthy
    np.testing.assert_allclose(found, velocity, atol=1e-4 * np.abs(velocity).max())
