"""The table of costs: the defaults are today's numbers, a file of it is checked, and a table decides
alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tensorlang as tl
from autosched.tiers.keys import Environment
from tensorlang import calibrate, te
from tensorlang.__main__ import main
from tensorlang.analysis import (
    ROOFLINE,
    Cost,
    cost_of,
    cost_tables,
    costs_text,
    generic,
    least_for_a_thread,
    worth_a_thread,
)
from tensorlang.analysis.cost_known import KNOWN
from tensorlang.recipes import default_schedule


def doubled(n: int) -> te.Tensor:
    a = te.placeholder((n,), name="a")
    return te.compute((n,), lambda i: a[i] * 2.0, name="b")


def test_worth_a_thread() -> None:
    few = ROOFLINE.thread
    assert [ROOFLINE.perhaps_shared(few // 4), ROOFLINE.shared(few)] == [True] * 2
    assert not any([ROOFLINE.perhaps_shared(few // 4 - 1), ROOFLINE.shared(few - 1)])


def product(m: int, n: int, k: int) -> te.ComputeOp:
    a, b, r = te.placeholder((m, k)), te.placeholder((k, n)), te.reduce_axis((0, k))
    return te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r)).op


def test_few_rows_are_worth_a_thread_sooner_than_tiles() -> None:
    target = tl.Target("llvm -mcpu=skylake-avx512 -num-cores=2")
    full = int(ROOFLINE.thread * ROOFLINE.product)
    with generic():
        assert 0.9 * full < least_for_a_thread(product(96, 96, 96), target) < full
        assert least_for_a_thread(doubled(8).op, target) == ROOFLINE.thread
        rows = [least_for_a_thread(product(m, 768, 768), target) for m in (1, 2, 4, 8, 16)]
        assert rows == sorted(rows) and rows[0] < full // 4 and 0.98 * full < rows[-1] < full
        assert worth_a_thread(product(1, 768, 768), 768 * 768, target)
        assert not worth_a_thread(product(8, 64, 64), 8 * 64 * 64, target)


def test_short_sums_are_worth_a_thread_sooner_than_long_ones() -> None:
    """Each is written, whatever its length."""
    target = tl.Target("llvm -mcpu=skylake-avx512 -num-cores=2")
    with generic():
        least = [least_for_a_thread(product(200, 200, depth), target) for depth in (1, 8, 64, 4096)]
        assert least == sorted(set(least)) and least[0] == ROOFLINE.thread


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


def test_processors_of_known_names_have_tables_of_their_own(monkeypatch) -> None:
    """Every name is one of LLVM's, so that a target can have it; the rows keep their names in explanations."""
    targets = {cpu: tl.Target.parse(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}") for cpu in KNOWN}
    haswell, other = targets["haswell"], tl.Target.parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver1")
    assert cost_of(haswell) == ROOFLINE, "the tests go by the generic table"
    monkeypatch.delenv("TENSORLANG_COST")
    monkeypatch.setattr(cost_tables, "_is_there", lambda path: False)
    assert {cpu: cost_of(target) for cpu, target in targets.items()} == KNOWN
    assert costs_text(haswell) == f"costs {KNOWN['haswell'].digest}, those of haswell"
    assert cost_of(haswell).chains == 10 and cost_of(other) == ROOFLINE
    assert cost_of(targets["emeraldrapids"]) == cost_of(targets["sapphirerapids"]) != ROOFLINE


def _calibrated(awake: float, asleep: float, product: float, known: Cost = ROOFLINE) -> Cost:
    return calibrate.table_of(awake, asleep, 9.8e-11, product, 16, 2, known)


def test_numbers_have_the_two_digits_that_are_known() -> None:
    table = _calibrated(2.1e-7, 7.1e-6, 6.1e-12)
    assert (table.start, table.thread, table.product) == (6300, 34000, 16.0)
    assert table == _calibrated(2.1001e-7, 7.1e-6, 6.1001e-12)
    slow = _calibrated(2.1e-6, 7.1e-5, 6.1e-12)
    assert slow.thread == 10 * table.thread and slow.product == table.product
    assert Cost.from_json(slow.to_json()) == slow


def test_what_is_not_measured_stays_as_known_of_the_processor() -> None:
    """Who calibrated a Zen 4 or Zen 5 lost the rest of its row."""
    known = KNOWN["znver5"]
    table = _calibrated(2.1e-7, 7.1e-6, 6.1e-12, known)
    assert table != known
    same = {"start": table.start, "thread": table.thread, "product": table.product}
    assert replace(known, **same) == table
    for shipped in KNOWN.values():
        assert Cost.from_json(shipped.to_json()) == shipped


@pytest.mark.parametrize("cores", [2, 3, 64])
@pytest.mark.parametrize("awake", [1.0, 0.2])
def test_a_loop_is_shared_where_threads_that_are_awake_gain(awake: float, cores: int) -> None:
    work = calibrate.worth_sharing(awake, cores)
    assert work - work / cores == pytest.approx(calibrate.GAIN * awake)


def test_calibrate_saves_where_schedules_look(tmp_path, monkeypatch, capsys) -> None:
    """Left alone, it saves in the user's directory of settings; TENSORLANG_COST=generic goes before that."""
    saved = tmp_path / "settings" / "costs.json"
    host = tl.Target.host()
    for name in ("_is_there", "_read"):
        monkeypatch.setattr(cost_tables, name, getattr(cost_tables, name).__wrapped__)
    for room in (cost_tables, calibrate):
        monkeypatch.setattr(room, "saved_at", lambda cpu: str(saved))
    monkeypatch.setattr(calibrate, "SECONDS", 0.0)
    assert costs_text(host) == f"costs {ROOFLINE.digest}, generic"
    assert main(["calibrate"]) == 0 and str(saved) in capsys.readouterr().out
    table = Cost.from_json(saved.read_text())
    assert cost_of(host) == ROOFLINE
    monkeypatch.delenv("TENSORLANG_COST")
    assert cost_of(host) == table and costs_text(host) == f"costs {table.digest}, measured here ({saved})"
    saved.write_text("{")
    with pytest.raises(tl.TensorLangError, match="makes no sense"):
        cost_of(host)
    assert main(["calibrate"]) == 0 and cost_of(host).start > 1, "a table that is broken is measured anew"
    assert main(["calibrate", str(saved / "below.json")]) == 1 and "cannot save" in capsys.readouterr().err
