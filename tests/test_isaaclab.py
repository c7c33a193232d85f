"""The Isaac Lab integration against a stand-in of Isaac Lab's Newton manager, written from its documented contract.

The stand-in keeps what a solver meets there: the configuration that names the manager by a string, state on the base
class, one or two states, sub-steps, Newton's collision pipeline, graph capture before the first step, reset by a world
mask of length worlds + 1, and contact forces asked for by ``update_contacts``. Isaac Lab itself is never imported.
"""

import dataclasses
import importlib
import inspect
import logging
import sys
import types
import weakref

import newton
import numpy as np
import pytest
import warp as wp

import newton_sap.integrations
from newton_sap import SolverSAP
from newton_sap.scenes import quadruped

NAME = "newton_sap.integrations.isaaclab"
STATE = ("joint_q", "joint_qd", "body_q", "body_qd")


def configclass(cls):
    """A dataclass that turns itself into a dict."""
    cls.to_dict = dataclasses.asdict
    return dataclasses.dataclass(cls)


def resolve(target):
    """The object that a string "module:attribute" names."""
    module, name = target.split(":")
    return getattr(importlib.import_module(module), name)


def make_manager():
    """A fresh base class with the slots and the order of calls of Isaac Lab's manager."""

    class NewtonManager:
        _solver = _use_single_state = _contacts = _pipeline = _mask = _graph = None
        _needs_collision_pipeline = _supports_rigid_body_force_input = _report_contacts = False

        @classmethod
        def _create_solver(cls, model, solver_cfg):
            raise NotImplementedError

        @classmethod
        def _build_solver(cls, model, solver_cfg):
            raise NotImplementedError

        @classmethod
        def _log_solver_debug(cls):
            pass

        @classmethod
        def initialize_solver(cls, model, cfg, dt, capture=False):
            base = NewtonManager
            base.cfg, base.dt, base.model = cfg, dt / cfg.num_substeps, model
            base.state_0, base.state_1, base.control = model.state(), model.state(), model.control()
            base._mask = wp.zeros(model.world_count + 1, dtype=wp.bool)
            cls._build_solver(model, cfg.solver_cfg)
            if base._solver is None:
                raise RuntimeError("_build_solver did not assign NewtonManager._solver")
            if base._needs_collision_pipeline:
                base._pipeline = newton.CollisionPipeline(model, rigid_contact_max=cfg.rigid_contact_max)
                base._contacts = base._pipeline.contacts()
                needed = base._solver.get_max_contact_count() if hasattr(base._solver, "get_max_contact_count") else 0
                if needed > base._contacts.rigid_contact_max:
                    base._contacts = newton.Contacts(rigid_contact_max=needed, soft_contact_max=0)
            newton.eval_fk(model, base.state_0.joint_q, base.state_0.joint_qd, base.state_0)
            if capture:
                with wp.ScopedCapture() as recorded:
                    cls._simulate()
                base._graph = recorded.graph

        @classmethod
        def _simulate(cls):
            base = NewtonManager
            if base._needs_collision_pipeline:
                base._pipeline.collide(base.state_0, base._contacts)
            for substep in range(base.cfg.num_substeps):
                out = base.state_0 if base._use_single_state else base.state_1
                base._solver.step(base.state_0, out, base.control, base._contacts, base.dt)
                if not base._use_single_state:
                    if base.cfg.num_substeps % 2 and substep == base.cfg.num_substeps - 1:
                        base.state_0.assign(base.state_1)
                    else:
                        base.state_0, base.state_1 = base.state_1, base.state_0
                base.state_0.clear_forces()
            if base._report_contacts:
                base._solver.update_contacts(base._contacts, base.state_0)

        @classmethod
        def step(cls):
            base = NewtonManager
            base._solver.reset(base.state_0, world_mask=base._mask, flags=0)
            base._mask.zero_()
            if base._graph is None:
                cls._simulate()
            else:
                wp.capture_launch(base._graph)
            cls._log_solver_debug()

    return NewtonManager


def make_physics():
    """The module ``isaaclab_newton.physics`` with configurations and the manager."""

    @configclass
    class NewtonSolverCfg:
        class_type: type | str = "isaaclab_newton.physics:NewtonManager"
        solver_type: str = "None"

    @configclass
    class NewtonCfg:
        class_type: type | str | None = None
        num_substeps: int = 1
        rigid_contact_max: int | None = None  # stands for collision_cfg
        solver_cfg: NewtonSolverCfg | None = None

        def __post_init__(self):
            self.class_type = self.solver_cfg.class_type

    physics = types.ModuleType("isaaclab_newton.physics")
    physics.NewtonSolverCfg, physics.NewtonCfg = NewtonSolverCfg, NewtonCfg
    physics.NewtonManager = make_manager()
    return physics


def forget():
    """Drop the integration, so that its next import meets the modules of the moment."""
    sys.modules.pop(NAME, None)
    vars(newton_sap.integrations).pop("isaaclab", None)


@pytest.fixture
def lab(monkeypatch):
    """The stand-in, installed as if it were Isaac Lab; everything is undone afterwards."""
    physics = make_physics()
    modules = {name: types.ModuleType(name) for name in ("isaaclab", "isaaclab.utils", "isaaclab_newton")}
    modules["isaaclab.utils.configclass"] = types.ModuleType("isaaclab.utils.configclass")
    modules["isaaclab.utils.configclass"].configclass = configclass
    modules["isaaclab_newton.physics"] = modules["isaaclab_newton"].physics = physics
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    forget()
    yield physics
    forget()


def start(lab, *, worlds=2, substeps=1, capture=False, force=False, room=None, **options):
    """A manager with a quadruped per world, as a task's configuration would start it."""
    model = quadruped(world_count=worlds, drop=0.02).model
    if force:
        with pytest.warns(DeprecationWarning, match="request_contact_attributes"):  # Isaac Lab 3.0 asks this way
            model.request_contact_attributes("force")
    solver_cfg = resolve(f"{NAME}:SAPSolverCfg")(**options)
    cfg = lab.NewtonCfg(solver_cfg=solver_cfg, num_substeps=substeps, rigid_contact_max=room)
    manager = resolve(cfg.class_type)
    lab.NewtonManager._report_contacts = force
    manager.initialize_solver(model, cfg, dt=substeps / 240.0, capture=capture)
    return manager


def snapshot(state):
    """Copies of the state's arrays."""
    return {name: getattr(state, name).numpy().copy() for name in STATE}


def test_configuration_has_every_keyword_of_the_solver(lab):
    """Fields are the solver's keywords, all unset, but for collision, which is the manager's; no others are taken."""
    cfg = resolve(f"{NAME}:SAPSolverCfg")
    keywords = [p.name for p in inspect.signature(SolverSAP).parameters.values() if p.kind == p.KEYWORD_ONLY]
    keywords = [name for name in keywords if not name.startswith("collision_")]
    assert [field.name for field in dataclasses.fields(cfg)] == ["class_type", "solver_type", *keywords]
    assert all(getattr(cfg(), name) is None for name in keywords)
    with pytest.raises(TypeError, match="stiffness"):
        cfg(stiffness=1.0)


def test_configuration_loads_no_manager(lab):
    """Tasks are configured before the app runs, when the manager cannot be imported yet."""
    manager, lab.NewtonManager = lab.NewtonManager, None
    cfg = resolve(f"{NAME}:SAPSolverCfg")(preset="drake")
    assert "NewtonSAPManager" not in vars(sys.modules[NAME])
    lab.NewtonManager = manager
    assert issubclass(resolve(cfg.class_type), manager)
    assert resolve(cfg.class_type) is resolve(cfg.class_type)


def test_options_reach_the_solver(lab):
    """The preset applies, explicit fields win, the rest are defaults; a wrong value is the solver's own error."""
    options = {"preset": "drake", "max_iterations": 7, "dissipation_ahead_of_touch": False}
    start(lab, **options)
    assert lab.NewtonManager._solver.options == SolverSAP(lab.NewtonManager.model, **options).options
    with pytest.raises(ValueError, match="contact_model"):
        start(lab, contact_model="soft")


def test_slots_are_set_on_the_base_class(lab):
    """Isaac Lab reads them from NewtonManager whichever subclass is active; the subclass shadows none."""
    manager = start(lab)
    base = lab.NewtonManager
    assert (base._use_single_state, base._needs_collision_pipeline, base._supports_rigid_body_force_input) == (
        True,
    ) * 3
    assert isinstance(base._solver, SolverSAP)
    assert not {"_solver", "_use_single_state", "_needs_collision_pipeline"} & vars(manager).keys()


def test_creating_a_solver_leaves_the_manager_alone(lab):
    """A coupler nests solvers made by the side-effect-free hook."""
    manager = resolve(f"{NAME}:NewtonSAPManager")
    solver = manager._create_solver(quadruped().model, resolve(f"{NAME}:SAPSolverCfg")(max_iterations=3))
    assert solver.options.max_iterations == 3
    assert lab.NewtonManager._solver is None and lab.NewtonManager._use_single_state is None


@pytest.mark.parametrize("substeps", [1, 2, 3])
@pytest.mark.parametrize("capture", [False, True])
def test_managed_steps_are_the_solvers_steps(lab, substeps, capture):
    """Stepping through the manager, eagerly or captured before the first step, gives the solver's own bits."""
    manager = start(lab, substeps=substeps, capture=capture)
    model = lab.NewtonManager.model
    solver, pipeline = SolverSAP(model), newton.CollisionPipeline(model)
    state, contacts = model.state(), pipeline.contacts()
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    for _ in range(20):
        manager.step()
        pipeline.collide(state, contacts)
        for _ in range(substeps):
            solver.step(state, state, model.control(), contacts, lab.NewtonManager.dt)
    for name, values in snapshot(state).items():
        np.testing.assert_array_equal(snapshot(lab.NewtonManager.state_0)[name], values, err_msg=name)
    assert lab.NewtonManager._solver.report().steps == 20 * substeps
    assert lab.NewtonManager._solver.report().contacts_peak.min() >= 4


@pytest.mark.parametrize("capture", [False, True])
def test_reset_clears_the_masked_world_only(lab, capture):
    """The mask has an entry per world and one for global entities; counters of the others go on."""
    manager = start(lab, worlds=3, capture=capture)
    for _ in range(5):
        manager.step()
    lab.NewtonManager._mask.assign(np.array([False, True, False, False]))
    manager.step()
    np.testing.assert_array_equal(lab.NewtonManager._solver.stats.groups.numpy()["steps"], [6, 1, 6])


def test_external_body_forces_are_taken(lab):
    """What the declared force input promises: a force on the trunk pushes that robot up and no other."""
    manager = start(lab)
    base, count = lab.NewtonManager, lab.NewtonManager.model.body_count // 2
    force = np.zeros((2 * count, 6), dtype=np.float32)
    force[0, 2] = 3.0 * 9.81 * base.model.body_mass.numpy()[:count].sum()
    for _ in range(30):
        base.state_0.body_f.assign(force)
        manager.step()
    height = base.state_0.body_q.numpy()[[0, count], 2]
    assert height[0] > height[1] + 0.05


@pytest.mark.parametrize("capture", [False, True])
def test_contact_sensors_get_the_weight(lab, capture):
    """Forces that sensors ask for by update_contacts carry the standing robots."""
    manager = start(lab, capture=capture, force=True)
    for _ in range(300):
        manager.step()
    base = lab.NewtonManager
    contacts, bodies = base._contacts, base.model.shape_body.numpy()
    count = int(contacts.rigid_contact_count.numpy()[0])
    up = contacts.force.numpy()[:count, 2]
    first = bodies[contacts.rigid_contact_shape0.numpy()[:count]]
    second = bodies[contacts.rigid_contact_shape1.numpy()[:count]]
    weight = 9.81 * base.model.body_mass.numpy().sum()
    assert up[second < 0].sum() - up[first < 0].sum() == pytest.approx(weight, rel=0.01)


def test_a_larger_contact_buffer_is_announced(lab):
    """A pipeline with more room than the solver stops the capture with the number to set, which then works."""
    with pytest.raises(RuntimeError, match="pass max_contacts=5000 to SolverSAP"):
        start(lab, room=5000, capture=True)
    manager = start(lab, room=5000, capture=True, max_contacts=5000)
    manager.step()
    assert lab.NewtonManager._contacts.rigid_contact_max == 5000
    assert lab.NewtonManager._solver.report().healthy


def test_a_larger_room_enlarges_the_contact_buffer(lab):
    """The manager asks get_max_contact_count and makes its contacts as large."""
    manager = start(lab, capture=True, max_contacts=6000)
    manager.step()
    assert lab.NewtonManager._contacts.rigid_contact_max == 6000


def test_the_report_is_logged_for_debugging_only(lab, caplog):
    """At level DEBUG each step logs the report; otherwise nothing reads the device."""
    manager = start(lab)
    manager.step()
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, logger=NAME):
        manager.step()
    (record,) = caplog.records
    assert "unconverged steps" in record.getMessage() and record.name == NAME


def test_missing_isaac_lab_is_named(monkeypatch):
    """Without Isaac Lab the import says what is missing, and newton_sap itself works on."""
    for name in ("isaaclab", "isaaclab_newton"):
        monkeypatch.setitem(sys.modules, name, None)
    forget()
    with pytest.raises(ImportError, match="needs Isaac Lab 3 with its package isaaclab_newton"):
        importlib.import_module(NAME)
    assert NAME not in sys.modules


def test_version_without_solver_configurations_is_refused(lab):
    """A version whose physics package has no NewtonSolverCfg is unknown."""
    del lab.NewtonSolverCfg
    with pytest.raises(ImportError, match="unknown to newton_sap, which knows 3.0: .*NewtonSolverCfg"):
        importlib.import_module(NAME)


@pytest.mark.parametrize(
    "name", ["_build_solver", "_create_solver", "_log_solver_debug", "_use_single_state", "_needs_collision_pipeline"]
)
def test_version_with_another_contract_is_refused(lab, name):
    """Where the manager lacks what the integration overrides or sets, it says so instead of being ignored."""
    delattr(lab.NewtonManager, name)
    with pytest.raises(ImportError, match=rf"unknown to newton_sap, which knows 3.0: no NewtonManager.{name}$"):
        resolve(f"{NAME}:NewtonSAPManager")


def test_other_names_are_not_found(lab):
    """The lazy attribute answers for nothing but the manager."""
    with pytest.raises(AttributeError, match="NewtonSAPSolver"):
        resolve(f"{NAME}:NewtonSAPSolver")


def test_a_replaced_solver_is_let_go(lab):
    """A hard reset builds anew; the integration keeps no solver alive."""
    manager = start(lab)
    old = weakref.ref(lab.NewtonManager._solver)
    manager._build_solver(lab.NewtonManager.model, resolve(f"{NAME}:SAPSolverCfg")())
    assert old() is None and lab.NewtonManager._solver is not None
