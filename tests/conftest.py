"""Shared settings: CPU unless a test asks for CUDA, quiet Warp, reproducible property tests."""

import hypothesis
import pytest
import warp as wp

wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)  # build messages would drown a failure's output

# Derandomised: the same examples on every machine and in every order of the tests.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=100, database=None)
hypothesis.settings.load_profile("fixed")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """The whole suite runs in two processes, unless -n says otherwise; a chosen part runs in this one."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not hasattr(config, "workerinput")
    if whole and config.pluginmanager.hasplugin("xdist") and config.option.numprocesses is None:
        config.option.numprocesses = 2
        config.option.dist = (
            "loadfile"  # tests of one file need the same kernels, which each process compiles for itself
        )


def pytest_addoption(parser):
    """How much of the random tests to run; the usual run takes a sample."""
    parser.addoption(
        "--operations",
        default="100",
        metavar="COUNT|FIRST:END",
        help="random sequences of operations in tests/test_operations.py (default: 100)",
    )
    parser.addoption(
        "--commands",
        default="short",
        choices=("short", "all"),
        help="which documented commands tests/test_docs.py executes as they are written (default: short ones)",
    )


def pytest_collection_modifyitems(items):
    """Skip tests marked ``cuda`` where Warp finds no CUDA device."""
    if not any("cuda" in item.keywords for item in items) or wp.is_cuda_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device")
    for item in items:
        if "cuda" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _on_cpu():
    """Build models on the CPU, whatever Warp would prefer; CUDA tests name their device."""
    with wp.ScopedDevice("cpu"):
        yield
