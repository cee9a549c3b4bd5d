"""The table of costs: the defaults are today's numbers, a file of it is checked, and a table decides alone."""

from __future__ import annotations

import pytest

import tensorlang as tl
from autosched.dynamic.tiers.keys import Environment
from tensorlang import calibrate, te
from tensorlang.analysis import ROOFLINE, Cost, cost_of
from tensorlang.recipes import default_schedule


def doubled(n: int) -> te.Tensor:
    a = te.placeholder((n,), name="a")
    return te.compute((n,), lambda i: a[i] * 2.0, name="b")


def test_worth_a_thread() -> None:
    assert [
        ROOFLINE.perhaps_shared(1 << 14),
        ROOFLINE.shared(1 << 16),
        ROOFLINE.shared_products(1 << 19),
    ] == [True] * 3
    assert not any(
        [
            ROOFLINE.perhaps_shared((1 << 14) - 1),
            ROOFLINE.shared((1 << 16) - 1),
            ROOFLINE.shared_products((1 << 19) - 1),
        ]
    )


def test_a_table_makes_the_round_trip_and_names_itself() -> None:
    other = Cost(thread=1 << 10)
    assert Cost.from_json(other.to_json()) == other and other.digest != ROOFLINE.digest
    assert Cost.from_json('{"thread": 1024}') == other


@pytest.mark.parametrize(
    "text", ["", "[]", '{"thread": 0}', '{"thread": "1"}', '{"threads": 1}', '{"load": NaN}', "[" * 9999]
)
def test_a_file_that_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(tl.TensorLangError, match="makes no sense"):
        Cost.from_json(text)


def test_the_table_of_this_machine_decides(tmp_path, monkeypatch) -> None:
    plain, key = default_schedule(doubled(4096)), Environment.of()
    path = tmp_path / "cost.json"
    path.write_text(Cost(thread=1 << 10).to_json())
    monkeypatch.setenv("TENSORLANG_COST", str(path))
    assert "parallel" not in plain.tree() and "parallel" in default_schedule(doubled(4096)).tree()
    assert Environment.of() != key
    assert cost_of(tl.Target.parse("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72")) == ROOFLINE
    monkeypatch.setenv("TENSORLANG_COST", str(tmp_path / "none.json"))
    with pytest.raises(tl.TensorLangError, match="TENSORLANG_COST"):
        default_schedule(doubled(4096))


def test_numbers_are_rounded_so_that_a_busy_moment_makes_no_other_table() -> None:
    assert calibrate.table_of(4e-6, 1e-10, 1.2e-11, 2) == calibrate.table_of(4.4e-6, 1.1e-10, 1.3e-11, 2)
    slow = calibrate.table_of(4e-5, 1e-10, 1.2e-11, 2)
    assert slow.thread > calibrate.table_of(4e-6, 1e-10, 1.2e-11, 2).thread
