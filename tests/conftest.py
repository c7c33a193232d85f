"""Shared settings: CPU unless a test or --device asks for CUDA, quiet Warp, reproducible property tests."""

import functools
import signal
import sys

import hypothesis
import pytest
import warp as wp

wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)  # build messages would drown a failure's output
wp.config.enable_backward = False  # Newton's kernels compile in a third of the time; tests of gradients ask for more

# Derandomised: the same examples on every machine and in every order of the tests.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=100, database=None)
hypothesis.settings.load_profile("fixed")


ON_TAPES = ("eval_articulation_fk", "rigid_contact_kinematics_kernel")
"""Newton's kernels that a tape around a step and its contacts holds."""

NARROW_PHASES = {"create_narrow_phase_primitive_kernel", "create_narrow_phase_kernel_gjk_mpr"}
"""Newton's functions that define the kernels of a collision pipeline."""

LONGEST = (
    "test_docs.py",  # the first to compile, while its neighbours need no kernels
    "test_house_rules.py",
    "test_conventions.py",
    "test_against_reference.py",
    "test_cli.py",
    "test_contract.py",
    "test_determinism.py",
    "test_coupling.py",
)
"""Files to begin with, so that no process is left alone at the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """The whole suite runs in two processes, unless -n says otherwise; a chosen part runs in this one."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not hasattr(config, "workerinput")
    if whole and config.pluginmanager.hasplugin("xdist") and config.option.numprocesses is None:
        config.option.numprocesses = 2
        config.option.dist = "loadfile"  # tests of a file need the same kernels, which each process compiles for itself
        config.option.loadscopereorder = False


def pytest_addoption(parser):
    """How much of the random tests to run; the usual run takes a sample."""
    parser.addoption(
        "--operations",
        default="30",
        metavar="COUNT|FIRST:END",
        help="random sequences of operations in tests/test_operations.py (default: 30)",
    )
    parser.addoption(
        "--device",
        default="cpu",
        help="where tests that name no device build their models (default: cpu), such as cuda:0",
    )
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")
    parser.addoption(
        "--commands",
        default="short",
        choices=("short", "all"),
        help="which documented commands tests/test_docs.py executes as they are written (default: short ones)",
    )


def pytest_collection_modifyitems(config, items):
    """Leave out tests marked ``slow`` unless asked for; skip those marked ``cuda`` where Warp finds no CUDA device."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
    if not config.option.slow:
        config.hook.pytest_deselected(items=[item for item in items if "slow" in item.keywords])
        items[:] = [item for item in items if "slow" not in item.keywords]
    if not any("cuda" in item.keywords for item in items) or wp.is_cuda_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device")
    for item in items:
        if "cuda" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _on_one_device(request):
    """Build models where ``--device`` says, whatever Warp would prefer; CUDA tests name their device."""
    with wp.ScopedDevice(request.config.option.device):
        yield


@pytest.fixture(autouse=True, scope="session")
def _pipelines_share_kernels():
    """Newton defines its collision kernels anew for each pipeline, which takes 0.2 s each; here they are defined once."""
    import newton  # noqa: F401

    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("newton."):
                for factory in vars(module).keys() & NARROW_PHASES:
                    patch.setattr(module, factory, functools.cache(getattr(module, factory)))
        yield


@pytest.fixture
def adjoints(monkeypatch):
    """A tape may go back through kernels that are defined during the test, and Newton's own, in this process from here on."""
    import newton  # noqa: F401

    monkeypatch.setattr(wp.config, "enable_backward", True)
    for name, module in list(sys.modules.items()):
        if name.startswith("newton.") and any(hasattr(module, kernel) for kernel in ON_TAPES):
            wp.set_module_options({"enable_backward": True}, module)


@pytest.fixture
def interruptible():
    """Python's own handler of SIGINT, which a shell takes from what it runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
