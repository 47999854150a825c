"""Lets PyPI's CUDA build of torch load on a machine without any CUDA library (about 2 GB less to fetch).

One small shared library stands in for every CUDA library that torch links: each function that torch imports from them
exists and returns an error, so that ``torch.cuda.is_available()`` is False and CPU work is unaffected. It lies in
``nvidia/cu13/lib``, which is on torch's search path, under the names of the libraries that are missing. The loader
wants the *versions* of the symbols too, hence the version script.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from lab.engine.errors import LabError

NO_DEVICE = 100  # cudaErrorNoDevice
OTHER_ERROR = 1
SUCCESS = 0

_SYSTEM_VERSION = re.compile(r"@@?(GLIBC|GLIBCXX|CXXABI|GCC|GOMP|OMP)")
_TEXT_RESULT = re.compile(r"Get(Error|Status|LastError)(String|Name)")
_LOADED_ONLY_WITH_A_GPU = "libcaffe2_nvrtc.so"


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"`{' '.join(command[:3])} ...` failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def _symbols(library: Path | str, *options: str) -> list[tuple[str, str]]:
    """(name@version, kind) of the dynamic symbols."""
    lines = [line.split() for line in _output("nm", "-D", *options, str(library)).splitlines()]
    return [(fields[-1], fields[-2]) for fields in lines if len(fields) >= 2]


def _bare(name: str) -> str:
    return name.split("@")[0]


def missing_libraries(objects: list[Path]) -> list[str]:
    """Names of the shared libraries that these objects link and neither they nor the system provide."""
    own = {path.name for path in objects}
    system = _output("/sbin/ldconfig", "-p")
    needed = {
        name for path in objects for name in re.findall(r"\(NEEDED\).*\[(.*)\]", _output("readelf", "-dW", str(path)))
    }
    return sorted(name for name in needed if name not in own and f"\t{name} " not in system)


def missing_functions(objects: list[Path], system_libraries: list[str]) -> list[str]:
    """Versioned names of the functions that these objects import and nobody defines."""
    defined = {
        _bare(name) for path in [*map(str, objects), *system_libraries] for name, _ in _symbols(path, "--defined-only")
    }
    wanted = {name for path in objects for name, kind in _symbols(path) if kind == "U"}
    return sorted(name for name in wanted if not _SYSTEM_VERSION.search(name) and _bare(name) not in defined)


def source_of(functions: list[str]) -> str:
    """C source that defines each function: it reports that there is no device."""
    lines = ['static const char text[] = "no CUDA on this machine";', "static void *handle[8];"]
    for name in sorted({_bare(function) for function in functions}):
        if _TEXT_RESULT.search(name):
            lines.append(f"const char *{name}(void) {{ return text; }}")
        elif name == "__cudaRegisterFatBinary":
            lines.append(f"void **{name}(void) {{ return handle; }}")
        else:
            lines.append(f"int {name}(void) {{ return {_result(name)}; }}")
    return "\n".join(lines) + "\n"


def _result(name: str) -> int:
    if name.startswith("__cuda") or name in ("cudaGetLastError", "cudaPeekAtLastError"):
        return SUCCESS
    return NO_DEVICE if name.startswith("cuda") else OTHER_ERROR


def version_script_of(functions: list[str]) -> str:
    """Linker script that gives each function the symbol version under which it is imported."""
    versions: dict[str, set[str]] = {}
    for function in functions:
        name, _, version = function.partition("@")
        if version:
            versions.setdefault(version.lstrip("@"), set()).add(name)
    return "".join(
        f"{version} {{ global: {'; '.join(sorted(names))}; }};\n" for version, names in sorted(versions.items())
    )


def build(site_packages: Path) -> list[str]:
    """Make the stand-in for the torch in `site_packages`; returns the libraries it stands in for.

    Needs gcc and binutils. Raises LabError with the tool's own words when one of them fails.
    """
    objects = [path for path in (site_packages / "torch" / "lib").glob("*.so*") if path.name != _LOADED_ONLY_WITH_A_GPU]
    libraries = missing_libraries(objects)
    system = re.findall(r"=> (/\S+)", _output("ldd", str(site_packages / "torch" / "lib" / "libc10.so")))
    functions = missing_functions(objects, system)
    folder = site_packages / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "standin.c").write_text(source_of(functions))
    (folder / "standin.map").write_text(version_script_of(functions))
    _output(
        "gcc", "-w", "-fno-builtin", "-shared", "-fPIC", "-Wl,-soname,libnocuda.so",
        f"-Wl,--version-script={folder / 'standin.map'}", "-o", str(folder / "libnocuda.so"), str(folder / "standin.c"),
    )  # fmt: skip
    for name in libraries:
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to("libnocuda.so")
    return libraries
