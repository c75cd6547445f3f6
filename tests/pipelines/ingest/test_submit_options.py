"""What jobs of a Slurm site asked for: options of their lines of submission, memory, GPUs and sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from features.errors import InputError
from tests.pipelines.ingest.test_slurm_jobs import one, read


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sbatch --array=0-9%3 run.sh", {"throttle": 3}),
        ("sbatch -a 0-9%3 run.sh", {"throttle": 3}),
        ("sbatch --array=0-9 run.sh", {"throttle": 0}),
        ("sbatch --dependency=afterok:5 run.sh", {"after": "5"}),
        ("sbatch -d afterany:5:6,afternotok:8 run.sh", {"after": "5,6,8"}),
        ("sbatch --dependency afterok:5_2:6,singleton run.sh", {"after": "5,6"}),
        ("sbatch -d after:5+10 run.sh", {"after": ""}),  # its start, not its end: the eligible time tells
        ("sbatch --time-min=1 run.sh", {"least_limit_s": 60, "limit_s": 120}),
        ("sbatch --time-min=1-0 run.sh", {"least_limit_s": 120}),
        ("sbatch --time-min=soon run.sh", {"least_limit_s": 120}),
        ("sbatch --licenses=matlab:2,ansys run.sh", {"licenses": "matlab:2,ansys"}),
        ("sbatch -L matlab run.sh", {"licenses": "matlab"}),
        ("sbatch --nice=50 run.sh", {"nice": 50}),
        ("sbatch --nice run.sh", {"nice": 100}),
        ("sbatch --exclusive run.sh", {"exclusive": True}),
        ("sbatch --exclusive -N2 run.sh", {"exclusive": True, "min_nodes": 2, "max_nodes": 2}),
        ("sbatch -N 2-4 run.sh", {"min_nodes": 2, "max_nodes": 4}),
        ("sbatch -n8 --nodes=2 run.sh", {"min_nodes": 2, "max_nodes": 2}),
        ("sbatch -H -vv -n 8 --requeue -N 2 run.sh", {"min_nodes": 2}),
        ("sbatch --partition fast,main run.sh", {"partition": "fast,main"}),
        ("sbatch -p fast,gone run.sh", {"partition": "main"}),  # as it ran
        ("sbatch --reservation=maint run.sh", {"reservation": "maint"}),
        ("sbatch run.sh -N 3 --exclusive -d afterok:5", {"min_nodes": 1, "exclusive": False, "after": ""}),  # the script's own
        ("srun -N 2 -- ./it --array=1%2", {"min_nodes": 2, "throttle": 0}),
        ("sbatch --comment=it's -N 2 run.sh", {"min_nodes": 2}),
        ("sbatch -J '' --comment '' -N 2 '' -N 3", {"min_nodes": 2}),
        ("", {"min_nodes": 1, "max_nodes": 0}),
    ],
)
def test_options_come_from_the_line_of_submission(line: str, expected: dict[str, object], tmp_path: Path) -> None:
    found = one(tmp_path, {"SubmitLine": line})
    assert {name: found[name] for name in expected} == expected


def test_options_that_are_not_modelled_are_counted(tmp_path: Path) -> None:
    notes = read(
        tmp_path, *({"SubmitLine": f"sbatch {option} run.sh"} for option in ("--contiguous", "--switches=1", "--switches 2"))
    ).notes
    assert notes == tuple(
        f"Jobs with the option --{name}, which is not modelled: {count}." for name, count in (("contiguous", 1), ("switches", 2))
    )


def test_a_singleton_waits_for_earlier_jobs_of_its_user_and_name(tmp_path: Path) -> None:
    lines = ("-J a it", "-J a -d singleton it", "--job-name=a x", "-d singleton -J a it", "-d singleton a", "-J b -d singleton it")
    rows = [
        {"JobID": str(at + 1), "SubmitLine": f"sbatch {line}", "Submit": f"2024-01-01T00:00:{at:02}"}
        for at, line in enumerate(lines)
    ]
    assert read(tmp_path, *rows).table["after"].tolist() == ["", "1", "", "2,3", "4", ""]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"SubmitLine": "sbatch -w n1 run.sh"}, {"nodelist": "n1", "exclude": ""}),
        ({"SubmitLine": "sbatch --exclude=n[1-2] run.sh"}, {"nodelist": "", "exclude": "n[1-2]"}),
        ({"Constraints": "[a|b]"}, {"features": "[a|b]"}),
        ({"Constraints": ""}, {"features": ""}),
    ],
)
def test_nodes_are_those_of_options_and_constraint(row: dict[str, str], expected: dict[str, str], tmp_path: Path) -> None:
    found = one(tmp_path, row)
    assert {name: found[name] for name in expected} == expected


def test_jobs_that_no_node_suits_are_counted(tmp_path: Path) -> None:
    assert read(tmp_path, {"Constraints": "gone"}).notes == (
        "Jobs that no node of the site suits: 1. They never start in replays.",
    )
    with pytest.raises(InputError, match=r"job 7: the constraint 'a&' cannot be read"):
        read(tmp_path, {"Constraints": "a&"})


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"ReqTRES": "cpu=8,mem=8000M,node=1"}, (0, 1000)),  # the partition's DefMemPerCPU
        ({"ReqTRES": "cpu=8,mem=8G,node=2"}, (4096, 0)),
        ({"ReqTRES": "cpu=8,node=2", "ReqMem": "4Gn"}, (4096, 0)),
        ({"ReqTRES": "cpu=8,node=2", "ReqMem": "500Mc"}, (0, 500)),
        ({"ReqTRES": "cpu=8,mem=4000M,node=1", "ReqMem": "500Mc"}, (0, 500)),
        ({"ReqTRES": "cpu=8,node=2", "ReqMem": "8G"}, (4096, 0)),
        ({"ReqTRES": "", "ReqMem": "Unknown"}, (0, 1000)),  # nothing is told: what the partition gives
        ({"SubmitLine": "sbatch --mem=3G run.sh"}, (3072, 0)),
        ({"SubmitLine": "sbatch --mem=3g run.sh"}, (3072, 0)),
        ({"SubmitLine": "sbatch --mem-per-cpu=2000 run.sh"}, (0, 2000)),
        ({"SubmitLine": "sbatch --mem=0 run.sh"}, (8192, 0)),  # all of a node: accounting tells how much
        ({"SubmitLine": "sbatch --mem=plenty run.sh"}, (8192, 0)),
    ],
)
def test_memory_is_of_a_node_or_of_a_processor(row: dict[str, str], expected: tuple[int, int], tmp_path: Path) -> None:
    found = one(tmp_path, row)
    assert (found["memory_node"], found["memory_cpu"]) == expected


@pytest.mark.parametrize(
    ("tres", "line", "gpus"),
    [
        ("cpu=8,node=2,gres/gpu=4", "sbatch run.sh", 2),
        ("cpu=8,node=2,gres/gpu=3", "sbatch run.sh", 2),
        ("cpu=8,node=1,gres/gpu:a=1,gres/gpu:b=2", "sbatch run.sh", 3),
        ("cpu=8,node=1", "sbatch --gres=gpu run.sh", 1),
        ("cpu=8,node=1", "sbatch --gres=gpu:2 run.sh", 2),
        ("cpu=8,node=1", "sbatch --gres=disk:9,gpu:nvidia_a100-sxm4-40gb:3 run.sh", 3),
        ("cpu=8,node=1", "sbatch --gres=gpu:a100:1,gpu:1g.5gb:2 run.sh", 3),
        ("cpu=8,node=1", "sbatch --gpus-per-node=a100:2 run.sh", 2),
        ("cpu=8,node=1", "sbatch -N2 -G 4 run.sh", 2),
        ("cpu=8,node=1,gres/gpu=1", "sbatch --gres=disk:9 run.sh", 1),
    ],
)
def test_gpus_are_those_of_a_node(tres: str, line: str, gpus: int, tmp_path: Path) -> None:
    assert one(tmp_path, {"ReqTRES": tres, "SubmitLine": line})["gpus"] == gpus


def test_without_a_line_of_submission_several_nodes_are_just_so_many_and_a_note_says_what_is_lost(tmp_path: Path) -> None:
    found = read(tmp_path, {"ReqTRES": "cpu=8,node=3"}, {"JobID": "8"}, without=("SubmitLine",))
    assert found.table[["min_nodes", "max_nodes"]].to_numpy().tolist() == [[3, 3], [1, 0]]
    assert found.notes == ("The file has no SubmitLine: dependencies and throttles are taken from when jobs became eligible.",)
