"""The command line of the tuner's benchmarks; results as JSON in ``benchmarks/results``.

python -m benchmarks.autosched peers --trials 64 --case matmul512 softmax   ours, MetaSchedule, libraries
python -m benchmarks.autosched pool --trials 2000 --task C1D --directory pools   candidates of one long search
python -m benchmarks.autosched strategies --seeds 5       strategies and parts left out, in worlds of pools
python -m benchmarks.autosched strategies --arm --records both.jsonl --section "before and now"   judges runs
python -m benchmarks.autosched reach                      after how many trials a search is as good as it gets
python -m benchmarks.autosched ablation --task GMM --arm all random         the same on real kernels
python -m benchmarks.autosched tails --trials 40                     what other tails of splits would be worth
python -m benchmarks.autosched chains --program mlp "conv conv"      programs of several reductions
python -m benchmarks.autosched suite --suite ansor images --threads 1     operators, image pipelines
AUTOSCHED_HALIDE=…/python python -m benchmarks.autosched halide      image pipelines beside Halide
AUTOSCHED_HALIDE=…/python python -m benchmarks.autosched halide --processes 3 --task GMM SFM      operators
python -m benchmarks.autosched libraries --threads 1      operators beside torch, onnxruntime and OpenVINO
python -m benchmarks.autosched sample --trials 72 --records samples.jsonl   measure what the model learns from
python -m benchmarks.autosched again --records samples.jsonl --directory kernels   the same, timed in turns
python -m benchmarks.autosched model --records samples.jsonl [--train]   how good it is; write it
python -m benchmarks.autosched guess                    what guesses without a measurement are worth
"""

from __future__ import annotations

import argparse
import compileall
import json
from pathlib import Path
from typing import Any

from ..harness import machine
from . import (
    ablation,
    again,
    ansor_suite,
    arms,
    beside_halide,
    cases,
    chains,
    guesses,
    libraries,
    model,
    peers,
    pools,
    programs,
    reach,
    samples,
    strategies,
    suites,
    tails,
    worlds,
)

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.autosched")
    parser.add_argument(
        "what",
        choices=(
            "peers",
            "ablation",
            "pool",
            "reach",
            "tails",
            "chains",
            "suite",
            "strategies",
            "halide",
            "libraries",
            "sample",
            "again",
            "model",
            "guess",
        ),
    )
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--case", nargs="+", choices=cases.CASES, default=list(cases.CASES))
    parser.add_argument("--program", nargs="+", choices=programs.PROGRAMS, default=list(programs.PROGRAMS))
    parser.add_argument("--suite", nargs="+", choices=suites.SUITES, default=["ansor", "images"])
    parser.add_argument("--task", nargs="+", help="of the suites; default: all that are not in the file yet")
    parser.add_argument("--threads", type=int, help="that kernels may use; default: all processors")
    parser.add_argument(
        "--arm", nargs="*", choices=arms.ARMS, default=list(arms.ARMS), help="none: those of --records"
    )
    parser.add_argument("--section", default="arms", help="of the file of results (strategies)")
    parser.add_argument(
        "--tuner", nargs="*", choices=("ours", "metaschedule"), default=["ours", "metaschedule"]
    )
    parser.add_argument(
        "--limit", type=float, default=1800.0, help="seconds that MetaSchedule may take for a case"
    )
    parser.add_argument(
        "--directory", type=Path, help="keep kernels here, and tune no case again that is here already"
    )
    parser.add_argument("--random", type=float, default=0.1, help="the share of a pool that is random")
    parser.add_argument("--most", type=int, default=again.MOST, help="candidates of a task (again)")
    parser.add_argument("--records", type=Path, default=Path("samples.jsonl"))
    parser.add_argument("--target", help="sample for this one; default: this machine")
    parser.add_argument("--processes", type=int, help="that time kernels again (again, halide)")
    parser.add_argument("--held-out", type=Path, help="records of the cases")
    parser.add_argument("--train", action="store_true")
    given = parser.parse_args(arguments)
    # as pip does when it installs: where Python is to write no bytecode, each process that measures would
    # compile hundreds of files of a checkout, 0.4 s of every search that no user waits for
    for package in ("tensorlang", "autosched"):
        compileall.compile_dir(ROOT / package, quiet=2)
    if given.what == "sample":
        samples.measure(given.records, given.trials, target=given.target)
    elif given.what == "again":
        found = again.measured(
            model.records_of(given.records),
            given.directory or Path("kernels"),
            given.most,
            again.PROCESSES if given.processes is None else given.processes,
        )
        given.records.with_suffix(".again.jsonl").write_text("".join(r.to_json() + "\n" for r in found))
    elif given.what == "guess":
        best = guesses.best_known(RESULTS / "autosched_ansor_200.json")
        for name in given.task or best:  # written after each
            found = chains.merged(
                RESULTS / "autosched_guess.json", [guesses.guessed(name, best[name], given.threads)]
            )
            _write("autosched_guess", {"programs": found}, guesses.table(found))
    elif given.what == "model":
        learnt, test = model.groups(given.records, given.held_out)
        found = model.judge(learnt, test) + model.ceiling(given.records)
        _write("cost_model", {"trained on": list(learnt), "tasks": found}, model.table(found))
        if given.train:
            model.train(learnt)
    elif given.what == "pool":
        for name in given.task or ansor_suite.TASKS:
            pools.gather(name, given.trials, given.seed, given.directory or Path("pools"), given.random)
        worlds.save(pools.gathered(given.directory or Path("pools")), RESULTS / "autosched_pools.jsonl.xz")
    elif given.what == "reach":
        known = worlds.load(RESULTS / "autosched_pools.jsonl.xz").values()
        long = [reach.reached(p) for p in known if max(p.trials) >= reach.MANY]
        _write("autosched_reach", {"tasks": long}, reach.table(long))
    elif given.what == "ablation":
        file = RESULTS / "autosched_ablation.json"
        for name in given.task or ansor_suite.TASKS:  # written after each
            found = ablation.ablate([name], given.trials, range(given.seeds), given.arm, file)
            _write("autosched_ablation", {"trials": given.trials, "runs": found}, ablation.table(found))
    elif given.what == "tails":
        found = tails.compare(given.trials, given.seed)
        _write("autosched_tails", {"trials": given.trials, "tasks": found}, tails.table(found))
    elif given.what == "chains":
        for name in given.program:  # written after each: a long run may be broken off, and made in parts
            found = chains.merged(
                RESULTS / "autosched_chains.json", [chains.tuned(name, given.trials, given.seed)]
            )
            _write(
                "autosched_chains",
                {"trials": given.trials, "seed": given.seed, "programs": found},
                chains.table(found),
            )
    elif given.what == "halide":
        names = given.task or list(suites.SUITES["images"])
        _halide(names, given.trials, given.seed, given.processes or chains.PROCESSES)
    elif given.what == "libraries":
        name = f"autosched_libraries_{given.trials}" + (f"_{given.threads}_threads" if given.threads else "")
        for task in given.task or ansor_suite.TASKS:  # written after each
            entry = libraries.beside(task, given.trials, given.seed, given.threads)
            entries = chains.merged(RESULTS / f"{name}.json", [entry])
            _write(name, {"trials": given.trials, "programs": entries}, libraries.table(entries))
    elif given.what == "strategies":
        runs = strategies.compare(
            given.task or [], given.seeds, given.arm, RESULTS / "autosched_pools.jsonl.xz", given.records
        )
        rows = strategies.judged(runs)
        file = RESULTS / "autosched_strategies.json"
        _write("autosched_strategies", strategies.merged(file, given.section, rows), strategies.table(rows))
    elif given.what == "suite":
        for suite in given.suite:
            _suite(suite, given.task, given.trials, given.seed, given.threads)
    else:
        entries = peers.compare(
            given.case, given.trials, given.seed, given.directory or peers.scratch(), given.limit, given.tuner
        )
        name = f"autosched_peers_{given.trials}"
        file = RESULTS / f"{name}.json"
        known = {e["case"]: e for e in json.loads(file.read_text())["cases"]} if file.exists() else {}
        entries = list({**known, **{e["case"]: e for e in entries}}.values())
        _write(name, {"trials": given.trials, "seed": given.seed, "cases": entries}, peers.table(entries))


def _suite(suite: str, tasks: list[str] | None, trials: int, seed: int, threads: int | None) -> None:
    """Tune the tasks of a suite one by one; the file is written after each, and a run that was broken off
    goes on where it ended."""
    name = f"autosched_{suite}_{trials}" + (f"_{threads}_threads" if threads else "")
    file = RESULTS / f"{name}.json"
    known = {e["program"] for e in chains.merged(file, [])}
    wanted = [t for t in suites.SUITES[suite] if (t in tasks if tasks else t not in known)]
    for task in wanted:
        found = chains.merged(file, [chains.tuned(task, trials, seed, threads)])
        _write(name, {"trials": trials, "seed": seed, "programs": found}, chains.table(found))


def _halide(names: list[str], trials: int, seed: int, processes: int) -> None:
    """Each pipeline beside Halide, written after each."""
    file = RESULTS / "autosched_halide.json"
    for name in names:
        known = json.loads(file.read_text())["pipelines"] if file.exists() else []
        entry = beside_halide.beside(name, trials, seed, beside_halide.default_python(), processes)
        found = [*[e for e in known if e["pipeline"] != name], entry]
        _write(
            "autosched_halide",
            {"trials": trials, "seed": seed, "pipelines": found},
            beside_halide.table(found),
        )


def _write(name: str, result: dict[str, Any], text: str) -> None:
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(
        json.dumps({"date": machine.now(), "machine": machine.describe(), **result}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
