"""Stand-ins of an engine without a GPU: page allocation as the Triton kernels do it, a CUDA library that says no."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.engine.cuda_stub import source_of, version_script_of
from lab.engine.standins.lab_cpu_plugin import fill_decode, fill_extend

PAGE = 4


class Numbers(list[int]):
    """As much of a torch tensor as the two functions use."""

    def tolist(self) -> list[int]:
        return list(self)

    def new_tensor(self, values: list[int]) -> Numbers:
        return Numbers(values)

    def copy_(self, values: Numbers) -> None:
        self[:] = values


def extend(prefix: list[int], lengths: list[int], last: list[int], free: list[int]) -> list[int]:
    out: Any = Numbers([-1] * (sum(lengths) - sum(prefix)))
    fill_extend(Numbers(prefix), Numbers(lengths), Numbers(last), Numbers(free), out, 0, PAGE)
    return list(out)


def test_a_new_prompt_fills_free_pages_in_order() -> None:
    assert extend([0], [6], [-1], [5, 2]) == [20, 21, 22, 23, 8, 9]


def test_a_prompt_with_a_prefix_goes_on_behind_it() -> None:
    assert extend([2], [6], [13], [5]) == [14, 15, 20, 21]


def test_each_request_of_a_batch_gets_pages_of_its_own() -> None:
    assert extend([0, 0], [5, 1], [-1, -1], [1, 2, 3]) == [4, 5, 6, 7, 8, 12]


def test_too_few_pages_leave_the_result_alone() -> None:
    assert extend([0], [6], [-1], [5]) == [-1] * 6


def decode(lengths: list[int], last: list[int], free: list[int]) -> list[int]:
    out: Any = Numbers([-1] * len(lengths))
    fill_decode(Numbers(lengths), Numbers(last), Numbers(free), out, 0, PAGE)
    return list(out)


def test_the_next_token_stays_in_its_page_until_that_is_full() -> None:
    assert decode([3, 5], [9, 23], [7]) == [10, 28]


def test_a_row_without_a_free_page_is_left_alone() -> None:
    assert decode([5, 5], [23, 27], [7]) == [28, -1]


FUNCTIONS = ["cudaMalloc@libcudart.so.13", "cudaGetLastError", "cublasCreate_v2@libcublas.so.13", "cudaGetErrorString"]


def test_the_versions_of_symbols_are_kept() -> None:
    script = version_script_of(FUNCTIONS)
    assert "libcudart.so.13 { global: cudaMalloc; };" in script
    assert "libcublas.so.13 { global: cublasCreate_v2; };" in script


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("cuda")
    (folder / "s.c").write_text(source_of(FUNCTIONS))
    subprocess.run(["cc", "-w", "-fno-builtin", "-shared", "-fPIC", "-o", "s.so", "s.c"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "s.so"))


@pytest.mark.engine  # needs a C compiler, as the installation does
@pytest.mark.parametrize(("function", "result"), [("cudaMalloc", 100), ("cublasCreate_v2", 1), ("cudaGetLastError", 0)])
def test_every_function_reports_that_there_is_no_device(library: ctypes.CDLL, function: str, result: int) -> None:
    assert library[function]() == result


@pytest.mark.engine
def test_what_gives_text_gives_text(library: ctypes.CDLL) -> None:
    library.cudaGetErrorString.restype = ctypes.c_char_p
    assert library.cudaGetErrorString() == b"no CUDA on this machine"
