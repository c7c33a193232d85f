"""CPU threads share the worlds of a step and change no bit of it."""

import numpy as np
import pytest
import warp as wp
from test_determinism import WORLDS, Rollout, assert_same_bits, sample

from newton_sap import SolverSAP
from newton_sap.boundary.topology import build_topology, share_groups
from newton_sap.boundary.validation import validate_threads
from newton_sap.diagnostics import clear_stats
from newton_sap.multibody.kinematics import kinematics
from newton_sap.runtime.launches import load_kernels


class Cuda:
    """Stands in for a device that this machine may lack."""

    is_cpu = False

    def __str__(self):
        return "cuda:0"


@pytest.mark.parametrize("threads", (2, pytest.param(40, marks=pytest.mark.slow)))
@pytest.mark.parametrize("options", sample(0, 3), ids=str)
def test_threads_keep_the_bits(options, threads):
    """Unlike worlds, under every law and precision, with two threads and with more than there are worlds."""
    names = tuple(WORLDS)
    several, one = Rollout(names, threads=threads, **options).run(), Rollout(names, **options).run()
    assert_same_bits(several.everything(), one.everything())


def test_threads_that_meet_often():
    """Many short steps of many small worlds, where two threads are in the same kernel most of the time."""
    names = ["pendulum", "balls and arm"] * 12
    several, one = Rollout(names, threads=2).run(400), Rollout(names).run(400)
    assert_same_bits(several.everything(), one.everything())
    assert several.solver.report().healthy


def test_a_graph_is_recorded_by_one_thread():
    """A solver with threads can be captured, and the graph gives the same bits."""
    names = tuple(WORLDS)
    assert_same_bits(Rollout(names, threads=2).replay().everything(), Rollout(names).run().everything())


def test_every_thread_has_its_own_scratch():
    """Hessians and factors of two threads never lie in the same place; those of one thread do."""
    model = Rollout(["quadruped"] * 6).model
    topology = build_topology(model, threads=2)
    assert topology.part_start.tolist() == [0, 3, 6]
    for name in ("group_hessian_start", "tree_factor_start"):
        places = topology.arrays[name].reshape(2, -1)
        assert len(set(places[0])) == len(set(places[1])) == 1 and places[0, 0] != places[1, 0]
    assert topology.hessian_size == 2 * build_topology(model).hessian_size


@pytest.mark.parametrize("seed", range(8))
def test_shares_are_even(seed):
    """Every group has one thread, and no thread more than its even share of the dofs and one group."""
    rng = np.random.default_rng(seed)
    dofs, threads = rng.integers(1, 40, rng.integers(1, 60)), int(rng.integers(1, 9))
    start = share_groups(dofs, threads)
    assert start[0] == 0 and start[-1] == len(dofs) and (np.diff(start) > 0).all() and len(start) <= threads + 1
    assert max(np.add.reduceat(dofs, start[:-1])) <= dofs.sum() / threads + dofs.max()


def test_errors_of_a_thread_reach_the_caller():
    """A launch that fails in one thread raises in ``step``'s own."""
    solver = Rollout(["pendulum"] * 4, threads=2).solver

    class Broken:
        def launch(self):
            raise RuntimeError("does not run")

    solver.launches._parts[1].recorded.prepare = lambda *_: Broken()
    with pytest.raises(RuntimeError, match="does not run"):
        solver.launches.trees(kinematics, [])


def test_threads_are_for_the_cpu():
    """A model on a GPU refuses them by name, and so does a number that makes no sense."""
    with pytest.raises(ValueError, match="threads=2 is for the CPU, and the model is on cuda:0"):
        validate_threads(2, Cuda())
    with pytest.raises(ValueError, match="threads must be an integer >= 1, not 0"):
        SolverSAP(Rollout(["pendulum"]).model, threads=0)


@pytest.mark.parametrize("asked, cores, workers", ((0, 1, 1), (0, 3, 3), (0, 64, 4), (2, 1, 2)))
def test_no_more_compilers_than_usable_cores(monkeypatch, asked, cores, workers):
    """Where a process is bound to one core, two compilers get into each other's way."""
    loads = []
    monkeypatch.setattr(wp.config, "load_module_max_workers", asked)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(cores)), raising=False)
    monkeypatch.setattr(wp, "force_load", lambda device, modules, **options: loads.append((modules, options)))
    load_kernels([kinematics, clear_stats, kinematics], "cpu")
    ((modules, options),) = loads
    assert modules == [kinematics.module, clear_stats.module]
    assert options["max_workers"] == workers
