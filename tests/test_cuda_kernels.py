"""CUDA's compiler takes every kernel: it comes with Warp and needs no GPU. What the kernels compute there is not seen here."""

import importlib
import inspect
import pkgutil
import re
import sys

import pytest
import warp as wp

import newton_sap
from newton_sap.constraints.laws import CONTACT_LAWS, contact_law
from newton_sap.contacts import filling
from newton_sap.gradients import recording
from newton_sap.gradients.sensitivity import sensitivity_kernel
from newton_sap.gradients.virtual_power import contact_power
from newton_sap.group_solve import solve_kernel
from newton_sap.linalg.lanes import BLOCK_DIM, LANES_OF_A_LIST, TREES_PER_BLOCK, block_dim
from newton_sap.multibody.free_motion import free_motion
from newton_sap.multibody.integration import integrate
from newton_sap.multibody.kinematics import kinematics
from newton_sap.tied_change import follow_tied_kernel

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="Warp has no CUDA compiler there")

ARCHITECTURE = 75
"""The oldest that Warp's compiler knows."""
NOT_IMPORTED = ("newton_sap.integrations.isaaclab",)  # needs Isaac Lab, launches nothing
ALWAYS = ("newton_sap.contacts.filling", "fill", "newton_sap.constraints.tendon_paths", "minimize lagged")
"""What the usual run compiles: both ways in which lanes work together, and a lock-free list."""


def kernels_of_modules():
    """Kernels by the module of Warp that they are compiled in."""
    found = {}
    for info in pkgutil.walk_packages(newton_sap.__path__, "newton_sap."):
        if info.name not in NOT_IMPORTED:
            for value in vars(importlib.import_module(info.name)).values():
                if isinstance(value, wp.Kernel):
                    found[value.module.name] = value
    return found


def kernels_made_for_models():
    """Kernels by what they are made of: contact laws, precisions and adjoints."""
    found = {}
    for law in CONTACT_LAWS:
        found[f"minimize {law}"] = solve_kernel(contact_law(law), wp.float64)
        found[f"minimize {law} with spin"] = solve_kernel(contact_law(law, True), wp.float64)
        found[f"minimize {law} mixed"] = solve_kernel(contact_law(law), wp.float32)
        found[f"minimize {law} with large groups"] = solve_kernel(contact_law(law), wp.float64, iterative=True)
        found[f"minimize {law} with long trees"] = solve_kernel(
            contact_law(law), wp.float64, iterative=True, long_trees=True
        )
        found[f"sensitivity {law}"] = sensitivity_kernel(contact_law(law))
        found[f"power {law}"] = contact_power(contact_law(law))
    found["fill"], found["fill with edges"] = filling.fill_kernel(False), filling.fill_kernel(True)
    found["follow tied"], found["follow tied mixed"] = map(follow_tied_kernel, (wp.float64, wp.float32))
    for name, value in vars(recording).items():
        if isinstance(value, wp.Kernel) and not value.options.get("enable_backward"):
            found[f"adjoint {name}"] = recording.differentiable(value)
    return found


def all_kernels():
    """Every kernel, most of them outside of the usual run."""
    for name, kernel in {**kernels_of_modules(), **kernels_made_for_models()}.items():
        yield pytest.param(kernel, id=name, marks=() if name in ALWAYS else pytest.mark.slow)


@pytest.mark.parametrize("kernel", list(all_kernels()))
def test_compiles_for_cuda(kernel, tmp_path, monkeypatch):
    """The module of a kernel becomes PTX that has an entry of the kernel's name."""
    lanes = block_dim(kernel)
    monkeypatch.setitem(kernel.module.options, "block_dim", lanes)
    (ptx,) = wp.compile_aot_module(kernel.module, arch=ARCHITECTURE, module_dir=tmp_path, use_ptx=True)
    (source,) = tmp_path.glob("*.cu")
    assert f"#define WP_TILE_BLOCK_DIM {lanes}\n" in source.read_text(encoding="utf-8")
    name = kernel.func.__name__
    assert re.search(rf"\.entry \w*{name}\w*_cuda_kernel_forward", ptx.read_text(encoding="utf-8"))


def test_blocks_are_as_large_as_their_modules_say():
    """Trees go in small blocks, groups by warps, the list of all groups by more lanes; a module for trees has no lanes."""
    found = kernels_of_modules()
    made = kernels_made_for_models()
    assert block_dim(made["minimize lagged"]) == block_dim(made["fill"]) == BLOCK_DIM
    assert block_dim(filling.number_slots) == LANES_OF_A_LIST
    of_trees = {name for name, kernel in found.items() if block_dim(kernel) == TREES_PER_BLOCK}
    assert {kernels.module.name for kernels in (kinematics, free_motion, integrate)} == of_trees
    for name in of_trees:
        source = inspect.getsource(importlib.import_module(name))
        assert "wp.kernel" in source and "lane = wp.tid()" not in source
