"""The public interface is what the snapshot beside this file says; a change of it is made on purpose.

``python tests/test_public_interface.py --write`` rewrites ``tests/public_interface.txt``.
"""

import dataclasses
import difflib
import enum
import importlib
import inspect
import math
import pathlib
import re
import sys
import types

import pytest
import warp as wp

SNAPSHOT = pathlib.Path(__file__).with_suffix("").with_name("public_interface.txt")
PAGES = pathlib.Path(__file__).parents[1] / "docs" / "api"
COMMAND = "python tests/test_public_interface.py --write"
DIRECTIVE = re.compile(r"^\.\. auto(module|class|data|function):: (\S+)\n((?:   :.*\n)*)", re.MULTILINE)
MEMBERS = re.compile(r"^   :members: (.+)$", re.MULTILINE)
ALSO = {
    "newton_sap": None,
    "newton_sap.conventions.device": None,
    "newton_sap.integrations.isaaclab": {"SAPSolverCfg": None},
}
"""What is public beside the directives of ``docs/api``, whose front page says so."""


def documented():
    """Yield what the pages of ``docs/api`` document: a module, and names in it with their members; None for all there are."""
    for page in sorted(PAGES.glob("*.md")):
        for kind, target, options in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            listed = MEMBERS.search(options)
            names = dict.fromkeys(listed[1].replace(" ", "").split(",")) if listed else None
            if kind == "module":
                yield target, names
            else:
                module, _, name = target.rpartition(".")
                yield module, {name: names}


def public_interface():
    """Return by module, the package last, the names that are public and of each the members, None for all of them."""
    found = {}
    for module, names in [*documented(), *ALSO.items()]:
        chosen = dict.fromkeys(public_names(load(module))) if names is None else names
        found[module] = {**chosen, **found.get(module, {})}
    return {module: found[module] for module in sorted(found, key=lambda name: (name == "newton_sap", name))}


def load(module):
    """Import a module; the configuration for Isaac Lab on bases of its own, as Isaac Lab is not here."""
    if not module.startswith("newton_sap.integrations."):
        return importlib.import_module(module)
    names = ("isaaclab", "isaaclab.utils", "isaaclab.utils.configclass", "isaaclab_newton", "isaaclab_newton.physics")
    stand_ins = {name: types.ModuleType(name) for name in names}
    stand_ins["isaaclab.utils.configclass"].configclass = dataclasses.dataclass
    stand_ins["isaaclab_newton.physics"].NewtonSolverCfg = type("NewtonSolverCfg", (), {})
    with pytest.MonkeyPatch.context() as patch:
        for name, other in stand_ins.items():
            patch.setitem(sys.modules, name, other)
        sys.modules.pop(module, None)
        importlib.import_module(module)
    return sys.modules.pop(module)


def public_names(module):
    """Names a module exports: its ``__all__``, or else what it defines itself without a leading underscore."""
    if hasattr(module, "__all__"):
        return sorted(name for name in module.__all__ if name != "__version__")
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and (name.isupper() or getattr(value, "__module__", None) == module.__name__)
    )


def show_annotation(annotation):
    """Text of an annotation; the same whether it is kept as a string or as an object."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", text)


def show_value(value):
    """Text of a default or a constant without addresses and without what differs between Python versions."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__qualname__
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show_value(k)}: {show_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return type(value).__name__ + "(" + ", ".join(map(show_value, value)) + ")"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}({show_value(getattr(value, dataclasses.fields(value)[0].name))}, ...)"
    if isinstance(value, (set, frozenset)):
        return type(value).__name__ + "(" + ", ".join(sorted(map(show_value, value))) + ")"
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else text


def show_signature(function):
    """Parameters and result of a callable in one line."""
    signature = inspect.signature(function)
    parts, keyword_only = [], False
    for parameter in signature.parameters.values():
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if parameter.kind == parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
        keyword_only |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        text = star + parameter.name
        if parameter.annotation is not parameter.empty:
            text += ": " + show_annotation(parameter.annotation)
        if parameter.default is not parameter.empty:
            text += " = " + show_value(parameter.default)
        parts.append(text)
    result = signature.return_annotation
    arrow = "" if result is signature.empty else " -> " + show_annotation(result)
    return f"({', '.join(parts)}){arrow}"


def show_member(name, member):
    """One line for an attribute of a class, or None for what a caller does not see."""
    if isinstance(member, property):
        result = inspect.signature(member.fget).return_annotation
        return f"property {name}" + ("" if result is inspect.Signature.empty else f" -> {show_annotation(result)}")
    if isinstance(member, (classmethod, staticmethod)):
        return f"{type(member).__name__} {name}{show_signature(member.__func__)}"
    if inspect.isfunction(member):
        return f"def {name}{show_signature(member)}"
    if inspect.isclass(member):
        return f"class {name}"
    if isinstance(member, wp.Function):
        return f"wp.func {name}{show_signature(member.func)}"
    return f"{name} = {show_value(member)}"


def show_class(name, cls, chosen=None):
    """Lines of a class: bases, how it is built, fields with defaults, then the chosen members, or else all of its own."""
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    lines = [f"class {name}({bases})" if bases else f"class {name}"]
    own = dict(vars(cls))
    if dataclasses.is_dataclass(cls):
        lines[0] = f"dataclass {lines[0][6:]}"
        for field in dataclasses.fields(cls):
            own.pop(field.name, None)
            if field.name.startswith("_"):
                continue
            default = "" if field.default is dataclasses.MISSING else f" = {show_value(field.default)}"
            if field.default_factory is not dataclasses.MISSING:
                default = f" = {show_value(field.default_factory)}()"
            lines.append(f"    {field.name}: {show_annotation(field.type)}{default}")
    elif "__init__" in own:
        lines.append(f"    def __init__{show_signature(own['__init__'])}")
    if chosen is None:
        chosen = [key for key in own if not key.startswith("_")]
    members = [(key, inspect.getattr_static(cls, key)) for key in sorted(chosen)]
    return lines + [f"    {show_member(key, value)}" for key, value in members]


def show_interface():
    """Return the text of the whole public interface; a name that two modules export is described once."""
    lines, homes, modules = [], {}, public_interface()
    for module_name, names in modules.items():
        module = load(module_name)
        lines.append(f"[{module_name}]")
        for name, members in sorted(names.items()):
            value = getattr(module, name)
            defined_in = getattr(value, "__module__", None)
            home = defined_in if name in modules.get(defined_in, ()) else module_name
            if isinstance(value, dict):  # a table has no __module__, but is one object wherever it is exported
                home = homes.setdefault(id(value), home)
            if home != module_name:
                lines.append(f"{name}: see {home}")
            else:
                lines += show_class(name, value, members) if inspect.isclass(value) else [show_member(name, value)]
        lines.append("")
    return "\n".join(lines)


def test_public_interface_is_the_snapshot():
    """Names, parameters, defaults and fields are those of the snapshot."""
    expected = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    difference = list(difflib.unified_diff(expected, show_interface().splitlines(), "snapshot", "now", "", "", 1, ""))
    if difference:
        message = f"The public interface changed. If that is meant, run: {COMMAND}"
        pytest.fail("\n".join([message, "", *difference]), pytrace=False)


def test_every_part_of_a_signature_is_shown():
    """Parameter kinds, defaults, annotations, fields, properties and methods appear; private names do not."""

    @dataclasses.dataclass
    class Sample(LookupError):
        size: "pathlib.Path"
        scale: float | None = None
        extra: dict = dataclasses.field(default_factory=dict)
        _hidden: int = 0

        @property
        def area(self) -> float: ...

        @staticmethod
        def make(first, *rest, kind: str = "a", **more) -> "pathlib.Path": ...

        def plain(self, value=math.inf, *, only): ...

        def _private(self): ...

    assert show_class("Sample", Sample) == [
        "dataclass Sample(LookupError)",
        "    size: Path",
        "    scale: float | None = None",
        "    extra: dict = dict()",
        "    property area -> float",
        "    staticmethod make(first, *rest, kind: str = 'a', **more) -> Path",
        "    def plain(self, value = inf, *, only)",
    ]


def test_what_is_public_without_a_directive_is_told():
    """The front page of the API names what the other pages do not."""
    text = (PAGES / "index.md").read_text(encoding="utf-8")
    for module, names in ALSO.items():
        for name in [module] if names is None else names:
            assert f"`{name}`" in text


def test_pages_are_read():
    """Every directive of the pages is found, with its list of members."""
    directives = [line for page in PAGES.glob("*.md") for line in page.read_text(encoding="utf-8").splitlines()]
    directives = [line for line in directives if line.startswith(".. auto")]
    found = list(documented())
    assert len(found) == len(directives) > 10
    assert ("newton_sap.swap", {"swapped_solvers": None, "SwapLog": None, "REPLACEABLE": None}) in found
    assert "step" in next(names["SolverSAP"] for _, names in found if names and "SolverSAP" in names)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: {COMMAND}")
    SNAPSHOT.write_text(show_interface(), encoding="utf-8")
