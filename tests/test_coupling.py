"""SolverSAP inside Newton's coupled solvers: each hook against an independent measure, and scenes whose forces balance."""

from __future__ import annotations

from types import SimpleNamespace

import newton
import numpy as np
import pytest
import random_models as rm
import warp as wp
from newton.solvers.experimental.coupled import SolverCoupledADMM, SolverCoupledProxy
from rig import G, link, material, put, weightless

from newton_sap import SolverSAP
from newton_sap.reference import quat_matrix
from newton_sap.swap import swapped_solvers

Flags = newton.ModelFlags
PLATE, LOAD = 2.0, 0.5
"""Masses [kg] of a plate on a driven vertical rail and of what lies or hangs on it."""
STIFFNESS = 2000.0
"""Of the rail's drive [N/m]."""
DEFLECTION = -(PLATE + LOAD) * G / STIFFNESS
"""Where the drive alone carries both [m]."""


# Effective masses -------------------------------------------------------------------------------------------------


def endpoints(model, seed, per_body=2):
    """Some points of every body: kinds, indices and offsets from the COM in body axes."""
    rng = np.random.default_rng(seed)
    bodies = np.repeat(np.arange(model.body_count), per_body)
    offsets = rng.uniform(-0.2, 0.2, (len(bodies), 3))
    kind = np.full(len(bodies), int(SolverSAP.EndpointKind.BODY))
    return wp.array(kind, dtype=int), wp.array(bodies, dtype=int), wp.array(offsets, dtype=wp.vec3)


def effective(solver, points):
    """Masses and inertias of the block hook."""
    mass, inertia = wp.zeros(points[0].shape[0], dtype=float), wp.zeros(points[0].shape[0], dtype=wp.mat33)
    solver.coupling_eval_effective_mass_block(*points, mass, inertia)
    return mass.numpy(), inertia.numpy().astype(float)


def response(solver, body, offset, size=1e6, dt=1e-6):
    """3x3 velocity [m/s] of a point, and spin of its body, per unit impulse and unit angular impulse, by stepping."""
    model = solver.model
    start, out = model.state(), model.state()
    newton.eval_fk(model, start.joint_q, start.joint_qd, start)
    lever = quat_matrix(start.body_q.numpy()[body, 3:].astype(float)) @ offset
    change = []
    for wrench in (np.zeros(6), *np.eye(6)):
        loads = np.zeros((model.body_count, 6))
        force = wrench[:3] * size
        loads[body] = [*force, *(wrench[3:] * size + np.cross(lever, force))]
        put(start.body_f, loads)
        solver.step(start, out, None, None, dt)
        twist = out.body_qd.numpy()[body].astype(float)
        change.append([*(twist[:3] + np.cross(twist[3:], lever)), *twist[3:]])
    columns = (np.array(change[1:]) - change[0]).T / (size * dt)
    return columns[:3, :3], columns[3:, 3:]


@pytest.mark.parametrize("seed", range(8))
def test_effective_mass_is_what_an_impulse_meets(seed):
    """Mass and inertia of random points of random trees are those that a tiny push and twist find."""
    builder = rm.random_tree_builder(
        seed, 4, tree_count=2, springs=False, drives=False, limits=False, kinematic_root=seed % 3 == 0
    )
    builder.add_link(mass=0.7, inertia=wp.diag(wp.vec3(0.01, 0.02, 0.03)), lock_inertia=True)  # flies without a joint
    model = builder.finalize()
    model.joint_q.assign(rm.random_state(model, seed).joint_q)
    solver = SolverSAP(model)
    points = endpoints(model, seed)
    masses, inertias = effective(solver, points)
    alone = wp.zeros(len(masses), dtype=float)
    solver.coupling_eval_effective_mass(*points, alone)
    np.testing.assert_array_equal(alone.numpy(), masses)
    moved = 0
    for mass, inertia, body, offset in zip(masses, inertias, points[1].numpy(), points[2].numpy(), strict=True):
        push, twist = (np.trace(part) / 3.0 for part in response(solver, body, offset.astype(float)))
        own = model.body_inertia.numpy()[body].astype(float)
        if push < 1e-7:  # no joint moves the point
            assert mass == pytest.approx(model.body_mass.numpy()[body], rel=1e-6)
            continue
        moved += 1
        assert mass == pytest.approx(1.0 / push, rel=2e-4)
        harder = max(np.trace(np.linalg.inv(own)) / 3.0 / twist, 1.0) if twist > 1e-7 else 1.0
        np.testing.assert_allclose(inertia, own * harder, rtol=5e-4)
    assert moved >= 2


def test_effective_masses_leave_the_last_step_alone():
    """What is read of a step afterwards is the step's, not the model's at its own coordinates."""
    builder = newton.ModelBuilder()
    builder.add_shape_box(builder.add_body(xform=wp.transform((0.0, 0.0, 0.099))), hx=0.1, hy=0.1, hz=0.1)
    builder.add_ground_plane()
    model = builder.finalize()
    solver, pipeline, state = SolverSAP(model), newton.CollisionPipeline(model), model.state()
    contacts = pipeline.contacts()
    put(state.joint_q, [5.0, *model.joint_q.numpy()[1:]])
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    for _ in range(3):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, 0.005)

    def told():
        force = wp.zeros(contacts.rigid_contact_max, dtype=wp.spatial_vector)
        solver.update_contacts(SimpleNamespace(force=force))
        view = solver.inspect()
        return force.numpy(), view.v_star, view.A

    before = told()
    effective(solver, endpoints(model, 0))
    for now, then in zip(told(), before, strict=True):
        np.testing.assert_array_equal(now, then)


def two_links():
    """A slider that carries a hinged arm."""
    builder = weightless()
    cart, arm = link(builder, 2.0), link(builder, 1.0)
    slide = builder.add_joint_prismatic(-1, cart, axis=newton.Axis.X, armature=0.1)
    out = wp.transform((0.0, 0.0, 0.4), wp.quat_identity())
    hinge = builder.add_joint_revolute(cart, arm, axis=newton.Axis.Y, child_xform=out, armature=0.1)
    builder.add_articulation([slide, hinge])
    return builder.finalize()


CHANGES = {
    "body_mass": (Flags.BODY_INERTIAL_PROPERTIES, lambda x: x * 2.0),
    "body_inertia": (Flags.BODY_INERTIAL_PROPERTIES, lambda x: x * 3.0),
    "body_com": (Flags.BODY_INERTIAL_PROPERTIES, lambda x: x + 0.1),
    "body_flags": (Flags.BODY_PROPERTIES, lambda x: x | np.array([int(newton.BodyFlags.KINEMATIC), 0])),
    "joint_q": (Flags.JOINT_PROPERTIES, lambda x: x + 0.7),
    "joint_X_c": (Flags.JOINT_PROPERTIES, lambda x: x * 2.0),
    "joint_axis": (Flags.JOINT_PROPERTIES, lambda x: np.roll(x, 1, axis=1)),
    "joint_armature": (Flags.JOINT_DOF_INERTIAL_PROPERTIES, lambda x: x * 5.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_effective_masses_is_announced_to(name):
    """Whatever the effective masses depend on belongs to a flag after which they are asked for again."""
    flag, new = CHANGES[name]
    model = two_links()
    solver = SolverSAP(model)
    points = endpoints(model, 3)
    before, _ = effective(solver, points)
    array = getattr(model, name)
    values = new(array.numpy())
    if name == "joint_X_c":
        values[:, 3:] /= np.linalg.norm(values[:, 3:], axis=1, keepdims=True)
    array.assign(values.astype(array.numpy().dtype))
    solver.notify_model_changed(flag)
    after, _ = effective(solver, points)
    assert np.abs(after / before - 1.0).max() > 0.01
    assert solver.coupling_effective_mass_refresh_flags() & int(flag)


def test_changes_that_do_not_matter_are_not_announced_to():
    """Materials, gravity and constraints leave effective masses alone, and cost no refresh."""
    model = two_links()
    flags = SolverSAP(model).coupling_effective_mass_refresh_flags()
    for flag in (Flags.SHAPE_PROPERTIES, Flags.MODEL_PROPERTIES, Flags.CONSTRAINT_PROPERTIES):
        assert not flags & int(flag)


@pytest.mark.parametrize("shares", [None, (0.0, 0.5, 1.0)])
def test_gravity_hook_is_the_acceleration_of_a_fall(shares):
    """Each body's entry is what it gains per second in free flight, less what it compensates of gravity."""
    builder = newton.ModelBuilder(gravity=(1.0, -2.0, -5.0))
    if shares is not None:
        newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    for share in shares or (0.0,):
        own = None if shares is None else {"mujoco:gravcomp": share}
        builder.add_body(mass=1.0, inertia=wp.diag(wp.vec3(0.1)), custom_attributes=own)
    model = builder.finalize()
    solver, state = SolverSAP(model), model.state()
    told = wp.zeros(model.body_count, dtype=wp.vec3)
    solver.coupling_eval_gravity_acceleration(told, None)
    solver.step(state, state, None, None, 0.01)
    np.testing.assert_allclose(told.numpy(), state.body_qd.numpy()[:, :3] / 0.01, rtol=1e-5)
    assert np.ptp(told.numpy(), axis=0).any() == (shares is not None)


# Proxies of other solvers' bodies ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "com"), [({}, (0.1, 0.0, 0.2)), ({"preset": "drake"}, (0.0, 0.0, 0.0))])
def test_untouched_proxy_feeds_nothing_back(options, com):
    """A tumbling proxy keeps its velocity through a step, whatever feedback it got before, and harvests none.

    Under the preset the velocity is the origin's, and that of a COM elsewhere is only kept to first order.
    """
    builder = newton.ModelBuilder(gravity=(0.3, 0.2, -9.81))
    body = builder.add_link(mass=2.0, inertia=wp.diag(wp.vec3(0.3, 0.4, 0.6)), lock_inertia=True, com=com)
    model = builder.finalize()
    solver, state, out = SolverSAP(model, **options), model.state(), model.state()
    put(state.body_q, [1.0, 2.0, 3.0, *rm.random_rotation(np.random.default_rng(5))])
    put(state.body_qd, [1.0, -2.0, 0.5, 6.0, -7.0, 8.0])
    proxies, dt = wp.array([body], dtype=int), 0.005
    feedback = wp.array([[3.0, 2.0, 1.0, 0.3, 0.2, 0.1]], dtype=wp.spatial_vector)
    gravity = wp.array([model.gravity.numpy()[-1]], dtype=wp.vec3)
    before = wp.clone(state.body_qd)
    solver.coupling_rewind_proxy_body(proxies, state, feedback, gravity, dt)
    solver.step(state, out, None, None, dt)
    solver.coupling_harvest_proxy_wrenches(
        proxies, feedback, body_qd_before=before, state=state, state_out=out, contacts=None, dt=dt
    )
    gyroscopic = np.linalg.norm(np.cross([6.0, -7.0, 8.0], [1.8, -2.8, 4.8]))
    assert np.abs(feedback.numpy()).max() < 1e-3 * gyroscopic


def rail(load):
    """A plate on a driven vertical rail; ``load(builder, plate)`` puts something on or under it."""
    builder = newton.ModelBuilder()
    plate = link(builder, PLATE)
    drive = {"target_ke": STIFFNESS, "target_kd": 120.0, "actuator_mode": newton.JointTargetMode.POSITION_VELOCITY}
    up = wp.transform((0.0, 0.0, 1.0), wp.quat_identity())
    builder.add_articulation([builder.add_joint_prismatic(-1, plate, axis=newton.Axis.Z, parent_xform=up, **drive)])
    builder.add_shape_box(plate, hx=0.5, hy=0.5, hz=0.05, cfg=material())
    load(builder, plate)
    builder.color()
    model = builder.finalize()
    model.soft_contact_ke, model.soft_contact_kd, model.soft_contact_mu = 1e4, 10.0, 0.5
    return model


def sheet_of_particles(builder, plate):
    """Twenty-five particles just above the plate."""
    grid = {"dim_x": 5, "dim_y": 5, "dim_z": 1, "cell_x": 0.1, "cell_y": 0.1, "cell_z": 0.1, "jitter": 0.0}
    at, still = wp.vec3(-0.2, -0.2, 1.06), wp.vec3(0.0)
    builder.add_particle_grid(pos=at, rot=wp.quat_identity(), vel=still, mass=LOAD / 25, radius_mean=0.01, **grid)


def hanging_particle(builder, plate):
    """One particle tied to a point under the plate."""
    particle = builder.add_particle(pos=wp.vec3(0.2, 0.1, 0.9), vel=wp.vec3(0.0), mass=LOAD, radius=0.01)
    builder.add_attachment_particle_body(
        particle, plate, body_point=wp.vec3(0.2, 0.1, -0.1), stiffness=1e5, damping=10.0
    )


def box(builder, plate):
    """A free box just above the plate."""
    body = builder.add_body(
        mass=LOAD, inertia=wp.diag(wp.vec3(0.01)), xform=wp.transform((0.0, 0.0, 1.11), wp.quat_identity())
    )
    builder.add_shape_box(body, hx=0.05, hy=0.05, hz=0.05, cfg=material())


class Coupled:
    """A coupled solver and a state that steps at 500 Hz."""

    def __init__(self, solver, model):
        self.solver, self.model, self.dt = solver, model, 1.0 / 500.0
        self.state, self.next, self.control = model.state(), model.state(), model.control()
        newton.eval_fk(model, model.joint_q, model.joint_qd, self.state)
        self.pipeline = newton.CollisionPipeline(model)
        self.contacts = self.pipeline.contacts()

    def step(self):
        self.state.clear_forces()
        self.pipeline.collide(self.state, self.contacts)
        self.solver.step(self.state, self.next, self.control, self.contacts, self.dt)
        self.state, self.next = self.next, self.state

    def run(self, steps):
        for _ in range(steps):
            self.step()
        return self

    def settle(self):
        """Half a second is enough for the drive; the height of the plate over its last tenth is returned."""
        self.run(200)
        heights = []
        for _ in range(50):
            self.step()
            heights.append(float(self.state.body_q.numpy()[0, 2]) - 1.0)
        return np.mean(heights)


def over_proxy(model, source, destination, *, load, mode="lagged", iterations=1, own_contacts=False, **proxy):
    """The plate by ``source``, its load by ``destination``, which sees the plate as a proxy."""
    if own_contacts:
        proxy["collision_pipeline"] = newton.CollisionPipeline
    return SolverCoupledProxy(
        model=model,
        entries=[
            SolverCoupledProxy.Entry(name="plate", solver=source, bodies=[0], joints=[0]),
            SolverCoupledProxy.Entry(name="load", solver=destination, **load),
        ],
        coupling=SolverCoupledProxy.Config(
            proxies=[SolverCoupledProxy.Proxy("plate", "load", bodies=[0], mode=mode, **proxy)], iterations=iterations
        ),
    )


def all_particles(model):
    return {"particles": list(range(model.particle_count))}


SOFT = {
    "xpbd": lambda view: newton.solvers.SolverXPBD(view, iterations=10),
    "vbd": lambda view: newton.solvers.SolverVBD(view, iterations=10),
    "semi_implicit": newton.solvers.SolverSemiImplicit,
}
RIGID = {
    "sap": SolverSAP,
    "mujoco": lambda view: newton.solvers.SolverMuJoCo(view, use_mujoco_contacts=False),
    "featherstone": newton.solvers.SolverFeatherstone,
}


@pytest.mark.parametrize("mode", ["lagged", "staggered"])
@pytest.mark.parametrize("soft", ["xpbd", pytest.param("vbd", marks=pytest.mark.slow)])
def test_robot_carries_particles_of_another_solver(soft, mode):
    """As the source of a proxy: the drive of the rail carries the plate and the particles that lie on it."""
    model = rail(sheet_of_particles)
    scene = Coupled(over_proxy(model, SolverSAP, SOFT[soft], load=all_particles(model), mode=mode), model)
    assert scene.settle() == pytest.approx(DEFLECTION, rel=0.01)
    resting = scene.state.particle_q.numpy()[:, 2] - scene.state.body_q.numpy()[0, 2]
    assert np.all((resting > 0.05) & (resting < 0.061))


@pytest.mark.parametrize("mode", ["lagged", "staggered"])
@pytest.mark.parametrize("rigid", RIGID)
def test_box_stands_on_the_plate_of_another_solver(rigid, mode):
    """As the destination of a proxy: the box stands on it, and the plate's own solver feels the weight."""
    model = rail(box)
    load = {"bodies": [1], "joints": [1]}
    solver = over_proxy(model, RIGID[rigid], SolverSAP, load=load, mode=mode, own_contacts=True)
    scene = Coupled(solver, model)
    assert scene.settle() == pytest.approx(DEFLECTION, rel=1e-3)
    bodies = scene.state.body_q.numpy()
    assert bodies[1, 2] - bodies[0, 2] == pytest.approx(0.1, abs=2e-4)


@pytest.mark.parametrize(
    ("soft", "load"),
    [pytest.param("xpbd", sheet_of_particles, marks=pytest.mark.slow), ("semi_implicit", hanging_particle)],
)
def test_robot_carries_particles_by_admm(soft, load):
    """ADMM contacts and attachments: the drive carries both as well."""
    model = rail(load)
    model.soft_contact_ke = 0.0  # ADMM makes the contacts
    pairs = [SolverCoupledADMM.ContactPair("plate", "load")] if load is sheet_of_particles else []
    solver = SolverCoupledADMM(
        model=model,
        entries=[
            SolverCoupledADMM.Entry(name="plate", solver=SolverSAP, bodies=[0], joints=[0]),
            SolverCoupledADMM.Entry(name="load", solver=SOFT[soft], **all_particles(model)),
        ],
        coupling=SolverCoupledADMM.Config(iterations=10, rho=50.0, gamma=0.1, baumgarte=0.01, contact_pairs=pairs),
    )
    assert Coupled(solver, model).settle() == pytest.approx(DEFLECTION, rel=0.01)


@pytest.mark.parametrize("mode", ["lagged", "staggered"])
def test_momentum_is_exchanged_and_kept(mode):
    """Without gravity a box by SolverSAP runs into particles by XPBD: what it loses they gain."""
    builder = weightless()
    body = builder.add_body(mass=PLATE, inertia=wp.diag(wp.vec3(0.1)))
    builder.add_shape_box(body, hx=0.2, hy=0.2, hz=0.2, cfg=material(friction=0.0))
    for y in (-0.1, 0.1):
        for z in (-0.1, 0.1):
            builder.add_particle(pos=wp.vec3(0.25, y, z), vel=wp.vec3(0.0), mass=0.125, radius=0.01)
    model = builder.finalize()
    scene = Coupled(over_proxy(model, SolverSAP, SOFT["xpbd"], load=all_particles(model), mode=mode), model)
    for array in (scene.state.joint_qd, scene.state.body_qd):
        put(array, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    scene.run(200)
    bodies, particles = scene.state.body_qd.numpy()[0], scene.state.particle_qd.numpy()
    gained = 0.125 * particles.sum(axis=0)
    assert gained[0] > 0.2
    np.testing.assert_allclose(PLATE * bodies[:3] + gained, [PLATE, 0.0, 0.0], atol=0.01 * gained[0])


def test_proxy_masses_follow_the_model():
    """The destination's proxy weighs what the source's joints make it weigh, also after a change and its notice."""
    model = rail(sheet_of_particles)
    solver = over_proxy(model, SolverSAP, SOFT["xpbd"], load=all_particles(model))
    proxy = solver.view("load").body_mass.numpy()
    assert proxy[0] == pytest.approx(3.0 * PLATE, rel=1e-5)  # two of three directions are immovable
    model.body_mass.assign(2.0 * model.body_mass.numpy())
    model.body_inv_mass.assign(0.5 * model.body_inv_mass.numpy())
    solver.notify_model_changed(Flags.BODY_INERTIAL_PROPERTIES)
    assert solver.view("load").body_mass.numpy()[0] == pytest.approx(6.0 * PLATE, rel=1e-5)


def test_iterations_restart_the_same_step():
    """Solving a step again changes no bit while nothing touches: the solver remembers nothing of the first try."""
    ends = []
    for iterations in (1, 3):
        model = rail(box)
        load = {"bodies": [1], "joints": [1]}
        solver = over_proxy(model, SolverSAP, SolverSAP, load=load, iterations=iterations)
        scene = Coupled(solver, model).run(10)
        ends.append([getattr(scene.state, n).numpy() for n in ("joint_q", "joint_qd", "body_q", "body_qd")])
    for once, again in zip(*ends, strict=True):
        np.testing.assert_array_equal(once, again)


def test_coupled_step_is_recorded():
    """A recorded coupled step, SolverSAP on both sides, replays to the same bits as one launched by hand."""
    scenes = []
    for _ in range(2):
        model = rail(box)
        load = {"bodies": [1], "joints": [1]}
        solver = over_proxy(model, SolverSAP, SolverSAP, load=load, own_contacts=True)
        scenes.append(Coupled(solver, model).run(20))
    eager, recorded = scenes
    with wp.ScopedCapture() as capture:
        recorded.step()
        recorded.step()
    for _ in range(10):
        wp.capture_launch(capture.graph)
    eager.run(20)
    np.testing.assert_array_equal(recorded.state.body_q.numpy(), eager.state.body_q.numpy())


def test_inertial_properties_are_refreshed_inside_a_graph():
    """As the hook promises: the notice can be recorded, and each replay reads the masses of its time."""
    builder = weightless()
    builder.add_body(mass=2.0, inertia=wp.diag(wp.vec3(0.1)), lock_inertia=True)
    model = builder.finalize()
    solver, start, out = SolverSAP(model), model.state(), model.state()
    assert solver.coupling_supports_inertial_property_refresh()
    put(start.body_f, [3.0, 0.0, 0.0, 0.0, 0.0, 0.2])
    with wp.ScopedCapture(device=model.device) as capture:
        solver.notify_model_changed(Flags.BODY_INERTIAL_PROPERTIES)
        solver.step(start, out, None, None, 0.01)
    for mass, inertia in ((2.0, 0.1), (8.0, 0.5)):
        put(model.body_mass, mass)
        put(model.body_inertia, inertia * np.eye(3))
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(out.body_qd.numpy()[0, [0, 5]], [0.03 / mass, 0.002 / inertia], rtol=1e-5)


def test_proxy_that_joints_of_ours_move_is_refused():
    """A proxy whose joint stays in the destination's view has no joint coordinates to follow."""
    model = rail(box)
    load = {"bodies": [1], "joints": [1]}
    solver = over_proxy(model, SolverSAP, SolverSAP, load=load, joints=[0])
    with pytest.raises(NotImplementedError, match="leave joints out of the Proxy"):
        Coupled(solver, model).step()


def test_swap_keeps_cables_in_coupled_examples():
    """In a coupled example the entry with cables keeps its solver, and the rigid one gets ours."""
    builder = newton.ModelBuilder()
    builder.add_body(mass=1.0, inertia=wp.diag(wp.vec3(0.1)))
    rod = newton.Rod.create_straight(
        start=(0.0, 0.0, 2.0), direction=(1.0, 0.0, 0.0), length=0.3, segment_count=3, radius=0.01
    )
    bodies, joints = builder.add_rod(rod=rod)
    builder.color()
    model = builder.finalize()
    with swapped_solvers(SolverSAP) as log:
        entries = [
            SolverCoupledProxy.Entry(
                name="rigid", solver=lambda view: newton.solvers.SolverMuJoCo(view), bodies=[0], joints=[0]
            ),
            SolverCoupledProxy.Entry(
                name="cable", solver=lambda view: newton.solvers.SolverVBD(view), bodies=bodies, joints=joints
            ),
        ]
        proxy = SolverCoupledProxy.Proxy("rigid", "cable", bodies=[0])
        solver = SolverCoupledProxy(model, entries, SolverCoupledProxy.Config(proxies=[proxy]))
    assert isinstance(solver.solver("rigid"), SolverSAP)
    assert not isinstance(solver.solver("cable"), SolverSAP)
    assert any("cables" in note for note in log.kept)
