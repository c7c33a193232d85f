"""What in MuJoCo's files changes the physics, but not that of SolverSAP: it says so."""

import pytest
from mjcf import finish

from newton_sap import SolverSAP

FILE = '<mujoco><option {}>{}</option><worldbody><body><freejoint/><geom size=".1"/></body></worldbody></mujoco>'
FLAGS = ("contact", "constraint", "equality", "limit", "frictionloss", "spring", "damper", "actuation", "clampctrl")


def test_usual_options_say_nothing():
    """Those of an empty file, and those that only concern how MuJoCo solves; warnings are errors here."""
    SolverSAP(
        finish(FILE.format('integrator="RK4" iterations="7" cone="elliptic" impratio="3"', '<flag energy="enable"/>'))
    )


@pytest.mark.parametrize("flag", FLAGS)
def test_what_a_file_switches_off_acts(flag):
    """The warning names the flag."""
    with pytest.warns(UserWarning, match=f"flag_{flag} = False: .* act"):
        SolverSAP(finish(FILE.format("", f'<flag {flag}="disable"/>')))


def test_fluids_and_switches_are_named_together():
    """One warning, whatever the number of worlds."""
    model = finish(FILE.format('density="1.2" viscosity="2e-5"', '<flag contact="disable"/>'), worlds=3)
    with pytest.warns(UserWarning, match=r"density = 1.2.*: no fluid.*viscosity = 2.*e-05.*flag_contact") as caught:
        SolverSAP(model)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_contact_pairs_are_named():
    """Of two geoms that only a pair lets touch."""
    ball = '<body><freejoint/><geom name="{}" size=".1" contype="0" conaffinity="2"/></body>'
    pair = '<contact><pair geom1="a" geom2="b" friction="1 1 0 0 0"/></contact>'
    model = finish(f"<mujoco><worldbody>{ball.format('a')}{ball.format('b')}</worldbody>{pair}</mujoco>")
    with pytest.warns(UserWarning, match="1 contact pairs: shapes touch as their collision filters say"):
        SolverSAP(model)


def test_compensation_by_actuators_is_named():
    """It counts as the actuators' force in MuJoCo, within their bounds."""
    model = finish(
        '<mujoco><worldbody><body gravcomp="1"><joint type="slide" actuatorgravcomp="true" actuatorfrcrange="-4 4"/>'
        '<geom size=".1" mass="1"/></body></worldbody></mujoco>'
    )
    with pytest.warns(UserWarning, match="actuatorgravcomp of 1 joints"):
        SolverSAP(model)


def welded(solref):
    """Two free bodies, welded."""
    body = '<body name="{}"><freejoint/><geom size=".1" contype="0" conaffinity="0"/></body>'
    weld = f'<equality><weld body1="a" body2="b" solref="{solref}"/></equality>'
    return finish(f"<mujoco><worldbody>{body.format('a')}{body.format('b')}</worldbody>{weld}</mujoco>")


@pytest.mark.parametrize("solref", ["0.3 1", "0.02 2", "-50 -5"])
def test_soft_equalities_are_named(solref):
    """As springs they would sag."""
    with pytest.warns(UserWarning, match="solref of 1 soft equality constraints: they hold nearly rigidly"):
        SolverSAP(welded(solref))


@pytest.mark.parametrize("solref", ["0.02 1", "0.005 1", "-5000 -100"])
def test_stiff_equalities_say_nothing(solref):
    """They ask for what they get; warnings are errors here."""
    SolverSAP(welded(solref))
