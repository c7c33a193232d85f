"""Numbers that several files must agree on."""

from newton_sap.constraints import ball_limits, coupling_table, loop_axes, tendons
from newton_sap.diagnostics import REASONS
from newton_sap.minimizer import progress
from newton_sap.workspace import COUPLER_ROWS


def test_laws_of_a_coupling_fit_its_slots():
    """A law too many would overwrite the rows of the next coupling."""
    assert coupling_table.LAWS_PER_COUPLING < COUPLER_ROWS
    assert max(loop_axes.AXIS_LAWS, loop_axes.ALL_LAWS - loop_axes.AXIS_LAWS, ball_limits.LIMITS) <= COUPLER_ROWS
    assert coupling_table.TENDON_LAWS <= 2 * coupling_table.LAWS_PER_COUPLING
    laws = (
        tendons.SERVO,
        tendons.LOWER,
        tendons.UPPER,
        tendons.FRICTION,
        tendons.EFFORT,
        tendons.PASSIVE,
        tendons.ARMATURE,
    )
    assert sorted(laws) == list(range(coupling_table.TENDON_LAWS))


def test_reasons_are_named_by_value():
    """Reports give the names of what the minimiser writes."""
    for reason, name in (
        (progress.UNCONSTRAINED, "unconstrained"),
        (progress.OPTIMAL, "optimal"),
        (progress.COST, "cost settled"),
        (progress.ITERATION_LIMIT, "iteration limit"),
        (progress.STALLED, "stalled"),
        (progress.NON_FINITE, "non-finite"),
    ):
        assert REASONS[reason] == name
    assert len(REASONS) == 6
