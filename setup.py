"""Build the compiled search where a C++ compiler is at hand; install without it elsewhere.

Everything else is declared in pyproject.toml. The page for the registry is README.md with absolute
links. The extensions are optional: when they cannot be built, extender.search.solver falls back to
plain Python and says so. PODGROUP_BUILD names another build, for tests (tools/checked_core.py):

``checked``     whatever C++ leaves undefined ends the process with a message: overflow of signed
                integers, division by zero, shifts too far, and places outside a vector, a memory
                view or an array; None where an object is wanted
``sanitized``   all that, what else UBSan knows, and every access through a pointer, by
                AddressSanitizer, which has to be loaded before Python is
``plain``       nothing is compiled, as where there is no compiler

The checked and sanitized ones also build tests/search/core/doors, by which tests reach parts that
only C can call.
"""

import os
import re
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

MODULES = (
    "cover",
    "mckp",
    "columns",
    "space",
    "levels",
    "relations",
    "traced",
    "frontiers",
    "multi_class_bound",
    "packing",
    "cheapest_nodes",
    "node_sets",
    "elimination",
    "domain_limits",
    "effort",
    "incumbent",
    "relaxation",
    "pricing",
    "lp.basis",
    "lp.master",
    "coupling_rows",
    "restricted_master",
    "column_generation",
    "lexicographic",
    "local_search",
    "branching",
    "branch_and_bound",
    "asked",
    "census",
)

SHIPPED = ["-O3", "-g0", "-fno-strict-aliasing", "-ffp-contract=off"]
# Python's own flags say -fwrapv, with which nothing overflows.
CHECKED = [
    "-O0",
    "-g0",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fno-wrapv",
    "-D_GLIBCXX_ASSERTIONS",
    "-fsanitize=signed-integer-overflow,integer-divide-by-zero,shift,bounds,float-cast-overflow",
    "-fno-sanitize-recover=all",
]
# Twice the work for the compiler, and tests run several times as long.
SANITIZED = [*CHECKED, "-O1", "-g1", "-fsanitize=address,undefined", "-fno-omit-frame-pointer"]

# One compiler for each core that this process may use; one alone takes more than four minutes.
AT_ONCE = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

BUILDS = {"": SHIPPED, "checked": CHECKED, "sanitized": SANITIZED}
BUILD = os.environ.get("PODGROUP_BUILD", "")
DOORS = Path("tests/search/core/doors")


def extensions() -> list[Extension]:
    """The extension modules, translated by Cython (a build requirement)."""
    if BUILD == "plain":
        return []
    from Cython.Build import cythonize

    flags = BUILDS[BUILD]
    sources = {
        f"extender.search.core.{name}": f"extender/search/core/{name.replace('.', '/')}.pyx"
        for name in MODULES
    }
    if BUILD:
        for door in sorted(DOORS.glob("*.pyx")):
            sources[f"{'.'.join(DOORS.parts)}.{door.stem}"] = str(door)
    found: list[Extension] = cythonize(
        [
            Extension(
                name,
                [source],
                language="c++",
                extra_compile_args=flags,
                extra_link_args=[flag for flag in flags if flag.startswith("-fsanitize")],
            )
            for name, source in sources.items()
        ],
        language_level=3,
        compiler_directives={
            "boundscheck": bool(BUILD),
            # nonecheck is not to be had without the GIL: None is refused where it would come in.
            "allow_none_for_extension_args": False,
            "wraparound": False,
            # Division as in C in every build; the checked ones have the compiler see to zeros.
            "cdivision": True,
        },
    )
    for extension in found:
        extension.optional = not BUILD  # cythonize does not hand it on
    return found


class Wheel(bdist_wheel):
    """A wheel that is tagged by what is in it: for one platform only with the compiled search."""

    def run(self) -> None:
        """Compile first: setuptools takes the tag from what was to be compiled."""
        wanted = self.distribution.ext_modules or []
        self.run_command("build_ext")
        outputs = self.get_finalized_command("build_ext").get_outputs()
        built = [path for path in outputs if os.path.exists(path)]
        if built and len(built) < len(wanted):
            raise SystemExit(f"error: {len(built)} of {len(wanted)} modules could be compiled")
        if wanted and not built:
            self.warn("nothing could be compiled: the wheel is for any platform, its search slow")
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()


def registry_page() -> str:
    """README.md with absolute links, to the files of this version."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    repository, tag = project["urls"]["Repository"], f"v{project['version']}"
    relative = r"(!?)(\[[^\]]*\])\((?!https?:|mailto:|#)"

    def absolute(link: re.Match[str]) -> str:
        view = "raw" if link[1] else "blob"
        return f"{link[1]}{link[2]}({repository}/{view}/{tag}/"

    return re.sub(relative, absolute, Path("README.md").read_text())


setup(
    long_description=registry_page(),
    long_description_content_type="text/markdown",
    ext_modules=extensions(),
    options={"build_ext": {"parallel": AT_ONCE}},
    cmdclass={"bdist_wheel": Wheel},
)
