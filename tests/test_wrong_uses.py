"""What a newcomer gets wrong in Python: the message names the thing, what is wrong with it and what to write instead."""

import re

import newton
import numpy as np
import pytest
import warp as wp

from newton_sap import SAPOptions, SolverSAP, registry, scenes
from newton_sap.compare import SpecificationError, compare
from newton_sap.conventions import convert_twist, up_axis_quaternion
from newton_sap.coordinates import Coordinates
from newton_sap.swap import swapped_solvers


def model(count=1):
    """So many free bodies."""
    builder = newton.ModelBuilder()
    for _ in range(count):
        builder.add_body(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
    return builder.finalize()


def of_unknown_shape():
    """A model with a shape of a type that Newton does not have."""
    builder = newton.ModelBuilder()
    builder.add_shape_sphere(builder.add_body(), label="ball")
    own = builder.finalize()
    own.shape_type.fill_(77)
    return own


def hinge(axis=(0.0, 0.0, 1.0), **changed):
    """A solver of a hinge, of whose model some arrays are filled with other numbers."""
    builder = newton.ModelBuilder()
    link = builder.add_link(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
    builder.add_articulation([builder.add_joint_revolute(-1, link, label="hinge")])
    own = builder.finalize()
    own.joint_axis.fill_(wp.vec3(*axis))
    for name, value in changed.items():
        getattr(own, name).fill_(value)
    return SolverSAP(own)


def owner():
    """A solver that collides by itself."""
    own = model()
    return SolverSAP(own, collision_pipeline=newton.CollisionPipeline(own))


WRONG = {
    "shortened keyword": (
        lambda: SolverSAP(model(), max_iter=3),
        TypeError,
        "SolverSAP has no option 'max_iter'; did you mean 'max_iterations'?",
    ),
    "keyword of another solver": (
        lambda: SolverSAP(model(), njmax=3),
        TypeError,
        "SolverSAP has no option 'njmax', which is one of SolverMuJoCo: leave it out, see docs/guides/from_mujoco.md (options: preset, ",
    ),
    "keyword of another solver that looks like one of this": (
        lambda: SolverSAP(model(), use_mujoco_contacts=False),
        TypeError,
        "SolverSAP has no option 'use_mujoco_contacts', which is one of SolverMuJoCo: leave it out, see docs/guides/from_mujoco.md",
    ),
    "keyword of another solver that this has by a longer name": (
        lambda: SolverSAP(model(), iterations=3),
        TypeError,
        "SolverSAP has no option 'iterations'; did you mean 'max_iterations'?",
    ),
    "keyword of no solver": (
        lambda: SolverSAP(model(), qqq=3),
        TypeError,
        "SolverSAP has no option 'qqq' (options: preset, contact_model, ",
    ),
    "an option without its keyword": (
        lambda: SolverSAP(model(), "drake"),
        TypeError,
        "SolverSAP takes options by keyword, as in SolverSAP(model, preset=...), not 'drake' by itself",
    ),
    "options in one piece": (
        lambda: SolverSAP(model(), options=SAPOptions()),
        TypeError,
        "SolverSAP takes options by keyword; those of a SAPOptions as in SolverSAP(model, **options.to_dict())",
    ),
    "a shape of no type": (
        lambda: SolverSAP(of_unknown_shape()),
        ValueError,
        "shape_type of shape 0 ('ball') is 77, which is no newton.GeoType; leave it as finalize() returned it",
    ),
    "a class for a pipeline": (
        lambda: SolverSAP(model(), collision_pipeline=newton.CollisionPipeline),
        TypeError,
        "collision_pipeline must be a newton.CollisionPipeline(model) or None, not the class CollisionPipeline",
    ),
    "words for a slot": (
        lambda: owner().set_collision_frequency(collision_frequency_type={"rigid": "auto"}),
        TypeError,
        "collision frequencies are given by slot, solver.CollisionSlot.RIGID, ",
    ),
    "words for a type": (
        lambda: owner().set_collision_frequency(collision_frequency_type={SolverSAP.CollisionSlot.RIGID: "auto"}),
        TypeError,
        "collision_frequency_type takes solver.CollisionFrequencyType.AUTO, ",
    ),
    "no name of a solver": (lambda: registry.get_solver(None), TypeError, "must be text such as 'sap', not None"),
    "a name for a class": (
        lambda: swapped_solvers("sap").__enter__(),
        TypeError,
        "registry.get_solver('sap'), not 'sap'",
    ),
    "no world": (lambda: scenes.quadruped(world_count=0), ValueError, "world_count must be an integer >= 1, not 0"),
    "less than no boxes": (lambda: scenes.box_stack(count=-1), ValueError, "count must be an integer >= 1, not -1"),
    "half a world": (lambda: scenes.quadruped(world_count=1.5), ValueError, "must be an integer >= 1, not 1.5"),
    "words for frames": (
        lambda: compare("sphere", "sap", frames="ten"),
        SpecificationError,
        "frames must be an integer >= 1, not 'ten'",
    ),
    "a model for a scene": (
        lambda: compare(model(), "sap"),
        SpecificationError,
        "a scene is a name or a function that returns a newton_sap.scenes.Scene, not Model",
    ),
    "a function of a model for one of a scene": (
        lambda: compare(model, "sap"),
        SpecificationError,
        "the function of a scene must return a newton_sap.scenes.Scene, not Model",
    ),
    "a conversion without a pose": (
        lambda: convert_twist(np.zeros(6), "newton", "drake"),
        ValueError,
        "converting from newton to drake needs pose=",
    ),
    "no axis": (lambda: up_axis_quaternion("Q", "Z"), ValueError, "known are X, Y, Z, newton, "),
    "a mask of worlds for a state": (
        lambda: SolverSAP(model()).reset(wp.zeros(2, dtype=wp.bool)),
        TypeError,
        "state must be a newton.State or None, not array; a mask of worlds is world_mask=...",
    ),
    "coordinates that are no numbers": (
        lambda: hinge(joint_q=np.nan),
        ValueError,
        "model.joint_q[0] of joint 0 ('hinge') is nan, and that is where the solver measures masses; it must be finite",
    ),
    "gravity that is no number": (
        lambda: hinge(gravity=wp.vec3(np.nan)),
        ValueError,
        "gravity of world 0 is [nan nan nan]; it must be finite",
    ),
    "an axis without a direction": (
        lambda: hinge(axis=(0.0, 0.0, 0.0)),
        ValueError,
        "joint_axis of joint 0 ('hinge') is zero; give the direction it moves along",
    ),
    "a state of another model": (
        lambda: Coordinates.at(model(), model(3).state()),
        ValueError,
        "the state has 21 joint coordinates, the model 7; give a state of this model",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_message_says_what_to_do(case):
    """The exception's type and words."""
    use, error, words = WRONG[case]
    with pytest.raises(error, match=re.escape(words)) as caught:
        use()
    assert "_src" not in str(caught.value)


def test_warnings_point_at_the_line_that_caused_them():
    """Of what a model says in vain and of what a state hopes for in vain: the caller's line, not one of the package."""
    driven = model()
    driven.joint_target_ke.fill_(1.0)
    driven.joint_target_mode.fill_(int(newton.JointTargetMode.POSITION))
    with pytest.warns(UserWarning, match="drives no free, distance or rod joint") as of_the_model:
        solver = SolverSAP(driven)
    state = driven.state(requires_grad=True)
    with pytest.warns(UserWarning, match="leave nothing on a tape") as of_the_state:
        solver.step(state, state, None, None, 0.01)
    assert {warning.filename for warning in (*of_the_model, *of_the_state)} == {__file__}
