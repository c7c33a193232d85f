"""Discovery of solvers: built-in ones, good, broken, clashing and misnamed plugins."""

import sys

import newton.solvers
import pytest

from newton_sap import registry

GOOD = """
import newton.solvers

class SolverGood(newton.solvers.SolverBase):
    pass

class SolverNeedy(newton.solvers.SolverBase):
    def __init__(self, model, config):
        super().__init__(model)

NOT_A_SOLVER = 3
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Return a function that installs a fake distribution on a temporary path."""
    monkeypatch.setattr(registry, "_outcomes", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = set(sys.modules)

    def add(distribution, entries, **sources):
        info = tmp_path / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        lines = [f"{name} = {target}" for name, target in entries.items()]
        (info / "entry_points.txt").write_text("\n".join(["[newton.solvers]", *lines, ""]))
        for module, source in sources.items():
            (tmp_path / f"{module}.py").write_text(source)

    yield add
    for module in set(sys.modules) - modules:
        if module.startswith("fake_"):
            del sys.modules[module]


def test_builtin_names():
    """Every solver of Newton is listed, sorted by name."""
    names = [row.name for row in registry.list_solvers() if row.builtin]
    expected = {"mujoco", "featherstone", "xpbd", "semi_implicit", "vbd", "steel", "kamino", "implicit_mpm", "style3d"}
    assert expected <= set(names)
    assert names == sorted(names)


@pytest.mark.parametrize("name", ["featherstone", "Featherstone", "semi-implicit"])
def test_builtin_classes(name):
    """A name gives Newton's class, whatever its case and hyphens."""
    wanted = {"featherstone": newton.solvers.SolverFeatherstone, "semi-implicit": newton.solvers.SolverSemiImplicit}
    assert registry.get_solver(name) is wanted[name.lower()]


def test_sap_is_registered():
    """The package's own metadata registers SolverSAP."""
    row = next(row for row in registry.list_solvers() if row.name == "sap")
    assert (row.target, row.distribution, row.builtin) == ("newton_sap:SolverSAP", "newton-sap", False)


def test_sap_loads_and_installs():
    """SolverSAP loads by name, and install() makes it a member of newton.solvers."""
    solver_class = registry.get_solver("sap")
    assert issubclass(solver_class, newton.solvers.SolverBase)
    try:
        assert registry.install() is solver_class
        assert newton.solvers.SolverSAP is solver_class
    finally:
        del newton.solvers.SolverSAP


def test_a_class_that_was_loaded_by_its_path_keeps_its_registered_name(monkeypatch):
    """install() loads SolverSAP as "module:Class"; its row in the list stays "sap", of this distribution."""
    monkeypatch.setattr(registry, "_outcomes", {})
    registry.get_solver("newton_sap:SolverSAP")
    row = next(row for row in registry.list_solvers() if row.target == "newton_sap:SolverSAP")
    assert (row.name, row.distribution, row.status) == ("sap", "newton-sap", "loaded")


def test_spelling():
    """Names lose case and hyphens, classes by their path keep them."""
    assert registry.normalise(" Semi-Implicit ") == "semi_implicit"
    assert registry.normalise("Fake-Other:sap") == "fake_other:sap"
    assert registry.normalise("newton_sap:SolverSAP") == "newton_sap:SolverSAP"


def test_good_plugin(plugin):
    """A plugin is listed without being imported, and imported when asked for."""
    plugin("fake-good", {"good": "fake_good:SolverGood"}, fake_good=GOOD)
    row = next(row for row in registry.list_solvers() if row.name == "good")
    assert (row.distribution, row.version, row.status) == ("fake-good", "1.2", "available")
    assert "fake_good" not in sys.modules, "listing must not import a plugin"
    assert registry.get_solver("good").__name__ == "SolverGood"
    assert registry.describe_solver("good").status == "loaded"
    assert next(row for row in registry.list_solvers() if row.name == "good").status == "loaded"


def test_broken_plugin_is_a_row_and_harms_nobody(plugin):
    """A plugin that fails to import keeps its row and reason; the others still work."""
    plugin("fake-good", {"good": "fake_good:SolverGood"}, fake_good=GOOD)
    plugin("fake-broken", {"broken": "fake_broken:SolverBroken"}, fake_broken="raise ValueError('no such chip')\n")
    rows = {row.name: row for row in registry.list_solvers(load=True)}
    assert rows["broken"].status == "broken"
    assert rows["broken"].reason == "ValueError: no such chip"
    assert "fake_broken.py" in rows["broken"].details
    assert rows["good"].status == rows["featherstone"].status == "loaded"
    with pytest.raises(registry.SolverLoadError, match=r"'broken' of fake-broken 1\.2.*no such chip.*reinstall"):
        registry.get_solver("broken")
    assert registry.get_solver("good").__name__ == "SolverGood"


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        ("SolverAbsent", "AttributeError"),
        ("NOT_A_SOLVER", "no subclass of newton.solvers.SolverBase"),
        ("SolverNeedy", "needs config beside the model"),
    ],
)
def test_unusable_target(plugin, attribute, reason):
    """A target that is no usable solver class is broken, and the reason says why."""
    plugin("fake-odd", {"odd": f"fake_odd:{attribute}"}, fake_odd=GOOD)
    assert reason in registry.describe_solver("odd").reason


def test_name_of_a_builtin_stays_with_the_builtin(plugin):
    """A plugin cannot take a name of Newton's, but stays reachable."""
    plugin("fake-clash", {"mujoco": "fake_clash:SolverGood"}, fake_clash=GOOD)
    row = next(row for row in registry.list_solvers(load=True) if row.distribution == "fake-clash")
    assert (row.name, row.status) == ("fake-clash:mujoco", "shadowed")
    assert registry.get_solver("mujoco") is newton.solvers.SolverMuJoCo
    assert registry.get_solver("fake-clash:mujoco").__name__ == "SolverGood"


def test_first_distribution_wins_among_plugins(plugin):
    """Of two plugins with one name the alphabetically first distribution wins."""
    plugin("fake-b", {"twin": "fake_b:SolverGood"}, fake_b=GOOD)
    plugin("fake-a", {"twin": "fake_a:SolverGood"}, fake_a=GOOD)
    assert registry.get_solver("twin").__module__ == "fake_a"
    assert registry.get_solver("fake-b:twin").__module__ == "fake_b"


def test_unknown_name_suggests_the_nearest(plugin):
    """A wrong name is answered with the nearest and all the installed ones."""
    plugin("fake-good", {"good": "fake_good:SolverGood"}, fake_good=GOOD)
    with pytest.raises(registry.SolverNotFoundError, match="did you mean 'featherstone'"):
        registry.get_solver("fetherstone")
    with pytest.raises(registry.SolverNotFoundError, match=r"did you mean 'good'.*installed: .*good"):
        registry.get_solver("god")


def test_unknown_option_is_named_before_a_solver_is_made():
    """Keywords are held against the constructor; the model is none, and a constructor that takes anything is believed."""

    class Anything(newton.solvers.SolverBase):
        def __init__(self, model, **options):
            super().__init__(model)

    registry.check_options(newton.solvers.SolverXPBD, ["iterations"])
    registry.check_options(Anything, ["iterationz"])
    with pytest.raises(registry.UnknownOptionError, match="SolverXPBD.*'iterationz'; did you mean 'iterations'"):
        registry.check_options(newton.solvers.SolverXPBD, ["iterationz"])
    with pytest.raises(registry.UnknownOptionError, match=r"'model' \(options: iterations, "):
        registry.check_options(newton.solvers.SolverXPBD, ["model"])


def test_class_and_path_are_accepted(plugin):
    """A class or a module:Class path serves in place of a name."""
    plugin("fake-good", {}, fake_good=GOOD)
    assert registry.get_solver("fake_good:SolverGood").__name__ == "SolverGood"
    assert registry.get_solver(newton.solvers.SolverXPBD) is newton.solvers.SolverXPBD
    for path, reason in (("no_such:Solver", "No module named"), ("fake_good:SolverGod", "no attribute")):
        with pytest.raises(
            registry.SolverLoadError, match=f"^'{path}' cannot be used: .*{reason}.*; write module:Class"
        ) as info:
            registry.get_solver(path)
        assert "reinstall" not in str(info.value), "nobody installed it"
    with pytest.raises(registry.SolverLoadError, match="dict cannot be used as a solver"):
        registry.get_solver(dict)
