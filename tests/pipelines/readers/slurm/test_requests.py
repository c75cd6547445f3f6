"""What Slurm's jobs ask for: in the columns that sacct writes, and in the options of their commands."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from features.errors import InputError
from features.jobs.schema import Trace
from pipelines.readers.read import read_file
from pipelines.readers.slurm.lines import ABSENT, NEEDED
from pipelines.readers.slurm.requests import with_type
from pipelines.readers.slurm.sacct import parse_sacct
from pipelines.readers.text import Source
from sim.slurm.files import read_site
from sim.slurm.lines import EXPORT
from sim.slurm.nodesets import with_features
from tests.conftest import SHARED, needs_shared
from tests.pipelines.readers.slurm.test_jobs import COLUMNS, read
from tests.support.refusals import refusal

LINE = "2024-05-01T10:00:00|00:00:10"


def parse(columns: str, *rows: str) -> Trace:
    text = "\n".join([f"JobID|Submit|Elapsed|{columns}", *(f"{number}|{LINE}|{row}" for number, row in enumerate(rows, start=1))])
    return parse_sacct(Source("sacct.txt", text.encode(), ""), "UTC")


def lists(trace: Trace) -> dict[str, list]:
    return {name: [None if pd.isna(value) else value for value in trace.jobs[name]] for name in ("nodes", "memory_kib", "gpus")}


def test_requested_resources_count_for_the_whole_job() -> None:
    rows = [
        "24|billing=24,cpu=24,mem=1.5G,node=4,gres/gpu=2,gres/gpu:a100=2",
        "1|cpu=1,mem=500,node=1",
        "1|cpu=1,gres/gpu:a=1,gres/gpu:b=2",
        "1|",
    ]
    trace = parse("ReqCPUS|ReqTRES", *rows)
    assert lists(trace) == {
        "nodes": [4, None, None, None],
        "memory_kib": [1536 * 1024, 500 * 1024, None, None],
        "gpus": [2, None, 3, None],
    }
    assert trace.notes == ()


def test_requested_memory_is_of_a_node_a_processor_or_the_job() -> None:
    rows = ["8|2|4Gn", "8|2|1000Mc", "8|2|16G", "8|2|2T", "8|2|0n", "8|2|", "8|1|3Kn"]
    trace = parse("ReqCPUS|ReqNodes|ReqMem", *rows)
    kib = [2 * 4 * 2**20, 8 * 1000 * 1024, 16 * 2**20, 2 * 2**30, None, None, 3]
    assert lists(trace) == {"nodes": [2] * 6 + [None], "memory_kib": kib, "gpus": [None] * 7}


def test_allocated_nodes_are_taken_where_none_are_requested() -> None:
    trace = parse("ReqCPUS|NNodes|ReqMem", "8|2|4Gn", "8|1|4Gn")
    assert lists(trace) == {"nodes": [2, None], "memory_kib": [8 * 2**20, 4 * 2**20], "gpus": [None, None]}
    assert trace.notes == (
        "The file states no requested nodes: where a job had several nodes, it is taken to have requested these.",
    )


@pytest.mark.parametrize(
    ("columns", "row", "complaint"),
    [
        ("ReqCPUS|ReqTRES", "1|cpu=1,mem=lots", "ReqTRES 'cpu=1,mem=lots' is not a size of memory such as 16G, 4000Mc or 4Gn"),
        ("ReqCPUS|ReqTRES", "1|4 processors", "ReqTRES '4 processors' is not a list of resources such as cpu=4,mem=16G,node=1"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(columns: str, row: str, complaint: str) -> None:
    assert refusal(parse, columns, row) == f"sacct.txt:2: {complaint}"


@needs_shared
def test_a_real_slurms_jobs_say_what_they_ask_for() -> None:
    jobs = read_file(SHARED / "slurm" / "micro-1.sacct.txt", timezone="UTC").jobs
    assert (len(jobs), jobs["memory_kib"].notna().sum(), jobs["gpus"].notna().sum()) == (244, 244, 27)
    assert (jobs["memory_kib"].max(), jobs["gpus"].max()) == (200_000 * 1024, 4)


TYPES = """NodeName=a1 CPUs=8 Gres=gpu:a100:6 Feature=x
NodeName=v1 CPUs=8 Gres=gpu:2 Feature=y
PartitionName=gpu Nodes=ALL TRESBillingWeights=GRES/gpu=2,GRES/gpu:a100=4.0,GRES/gpu:v100=1
"""
ASKED: list[tuple[dict[str, str], dict[str, object]]] = [
    (
        {"SubmitLine": "sbatch --dependency afterok:5_2:6,singleton run.sh"},
        {"after": "5,6"},
    ),  # the first: a singleton waits for those before
    ({"SubmitLine": "sbatch --array=0-9%3 run.sh"}, {"throttle": 3}),
    ({"SubmitLine": "sbatch --array=0-9 run.sh"}, {"throttle": 0}),
    ({"SubmitLine": "sbatch --dependency=afterok:5 run.sh"}, {"after": "5"}),
    ({"SubmitLine": "sbatch -d afterany:5:6,afternotok:8 run.sh"}, {"after": "5,6,8"}),
    ({"SubmitLine": "sbatch -d after:5+10 run.sh"}, {"after": ""}),  # its start, not its end: the eligible time tells
    ({"SubmitLine": "sbatch --time-min=1 run.sh"}, {"least_limit_s": 60, "limit_s": 120}),
    ({"SubmitLine": "sbatch --time-min=1-0 run.sh"}, {"least_limit_s": 120}),
    ({"SubmitLine": "sbatch --licenses=matlab:2,ansys run.sh"}, {"licenses": "matlab:2,ansys"}),
    ({"SubmitLine": "sbatch --nice=50 run.sh"}, {"nice": 50}),
    ({"SubmitLine": "sbatch --nice run.sh"}, {"nice": 100}),
    ({"SubmitLine": "sbatch --exclusive -N2 run.sh"}, {"exclusive": True, "min_nodes": 2, "max_nodes": 2}),
    ({"SubmitLine": "sbatch -N 2-4 run.sh"}, {"min_nodes": 2, "max_nodes": 4}),
    ({"SubmitLine": "sbatch -n8 --nodes=2 run.sh"}, {"min_nodes": 2, "max_nodes": 2}),
    ({"SubmitLine": "sbatch -H -vv -n 8 --requeue -N 2 run.sh"}, {"min_nodes": 2}),
    ({"SubmitLine": "sbatch --partition fast,main run.sh"}, {"partition": "fast,main"}),
    ({"SubmitLine": "sbatch -p fast,gone run.sh"}, {"partition": "main"}),  # as it ran
    # options behind the script are its own
    ({"SubmitLine": "sbatch run.sh -N 3 --exclusive -d afterok:5"}, {"min_nodes": 1, "exclusive": False, "after": ""}),
    ({"SubmitLine": "srun -N 2 -- ./it --array=1%2"}, {"min_nodes": 2, "throttle": 0}),
    ({"SubmitLine": "sbatch --comment=it's -N 2 run.sh"}, {"min_nodes": 2}),
    ({"SubmitLine": "sbatch -J '' --comment '' -N 2 '' -N 3"}, {"min_nodes": 2}),
    ({"SubmitLine": ""}, {"min_nodes": 1, "max_nodes": 0}),
    # nodes by name and by what they have
    ({"SubmitLine": "sbatch -w n1 run.sh"}, {"nodelist": "n1", "exclude": ""}),
    ({"SubmitLine": "sbatch --exclude=n[1-2] run.sh"}, {"nodelist": "", "exclude": "n[1-2]"}),
    ({"Constraints": "a&b"}, {"features": "a&b"}),
    # memory of a node, or of a processor
    ({"ReqTRES": "cpu=8,mem=8000M,node=1"}, {"memory_node": 0, "memory_cpu": 1000}),  # the partition's DefMemPerCPU
    ({"ReqTRES": "cpu=8,mem=8G,node=2"}, {"memory_node": 4096, "memory_cpu": 0}),
    ({"ReqTRES": "cpu=8,node=2", "ReqMem": "4Gn"}, {"memory_node": 4096, "memory_cpu": 0}),
    ({"ReqTRES": "cpu=8,node=2", "ReqMem": "500Mc"}, {"memory_node": 0, "memory_cpu": 500}),
    ({"ReqTRES": "cpu=8,mem=4000M,node=1", "ReqMem": "500Mc"}, {"memory_node": 0, "memory_cpu": 500}),
    ({"ReqTRES": "cpu=8,node=2", "ReqMem": "8G"}, {"memory_node": 4096, "memory_cpu": 0}),
    ({"ReqTRES": "", "ReqMem": "Unknown"}, {"memory_node": 0, "memory_cpu": 1000}),  # nothing is told: what the partition gives
    ({"SubmitLine": "sbatch --mem=3G run.sh"}, {"memory_node": 3072, "memory_cpu": 0}),
    ({"SubmitLine": "sbatch --mem-per-cpu=2000 run.sh"}, {"memory_node": 0, "memory_cpu": 2000}),
    ({"SubmitLine": "sbatch --mem=0 run.sh"}, {"memory_node": 8192, "memory_cpu": 0}),  # all of a node: accounting tells how much
    ({"SubmitLine": "sbatch --mem=plenty run.sh"}, {"memory_node": 8192, "memory_cpu": 0}),
    # GPUs of a node
    ({"ReqTRES": "cpu=8,node=2,gres/gpu=3", "SubmitLine": "sbatch run.sh"}, {"gpus": 2}),
    ({"ReqTRES": "cpu=8,node=1,gres/gpu:a=1,gres/gpu:b=2", "SubmitLine": "sbatch run.sh"}, {"gpus": 3}),
    ({"ReqTRES": "cpu=8,node=1", "SubmitLine": "sbatch --gres=gpu run.sh"}, {"gpus": 1}),
    ({"ReqTRES": "cpu=8,node=1", "SubmitLine": "sbatch --gres=disk:9,gpu:nvidia_a100-sxm4-40gb:3 run.sh"}, {"gpus": 3}),
    ({"ReqTRES": "cpu=8,node=1", "SubmitLine": "sbatch --gres=gpu:a100:1,gpu:1g.5gb:2 run.sh"}, {"gpus": 3}),
    ({"ReqTRES": "cpu=8,node=1", "SubmitLine": "sbatch --gpus-per-node=a100:2 run.sh"}, {"gpus": 2}),
    ({"ReqTRES": "cpu=8,node=1", "SubmitLine": "sbatch -N2 -G 4 run.sh"}, {"gpus": 2}),
    ({"ReqTRES": "cpu=8,node=1,gres/gpu=1", "SubmitLine": "sbatch --gres=disk:9 run.sh"}, {"gpus": 1}),
]
"""What accounting says of a job, and what it asked for."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    rows = [{"JobID": str(number), **row} for number, (row, _) in enumerate(ASKED, start=100)]
    return read(tmp_path_factory.mktemp("jobs"), *rows).table


@pytest.mark.parametrize("number", range(len(ASKED)), ids=[" ".join(row.values()) for row, _ in ASKED])
def test_what_a_job_asked_for_is_read_from_its_line_and_columns(asked: pd.DataFrame, number: int) -> None:
    expected = ASKED[number][1]
    assert asked.iloc[number][[*expected]].to_dict() == expected


def test_options_that_are_not_modelled_are_counted(tmp_path: Path) -> None:
    notes = read(
        tmp_path,
        *(
            {"JobID": str(number), "SubmitLine": f"sbatch {option} run.sh"}
            for number, option in enumerate(("--contiguous", "--switches=1", "--switches 2"), start=1)
        ),
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


def test_a_type_of_gpus_narrows_the_nodes_and_weighs_by_its_share(tmp_path: Path) -> None:
    texts = {"slurm.conf": TYPES, "gres.conf": "NodeName=v1 Name=gpu Type=v100 Count=2\n"}
    typed = read_site(texts, "typed")
    assert typed.partitions["gpu"].billing == {"gres/gpu": 2.0 + 4 * 6 / 8 + 1 * 2 / 8}
    for row, options, wanted in (
        ({}, {"gres": "gpu:a100:2"}, "gpu:a100"),
        ({}, {"gpus-per-node": "v100:1"}, "gpu:v100"),
        ({"reqtres": "cpu=2,gres/gpu:v100=2,gres/gpu=2"}, {}, "gpu:v100"),
        ({}, {"gres": "gpu:2"}, ""),
        ({}, {"gres": "gpu:h100:2"}, ""),  # no node says that it has one
    ):
        assert with_type("", row, options, typed) == wanted
    both = with_type("x|y", {}, {"gpus": "a100:1"}, typed)
    assert with_features(typed, both) == {"a1"}


def test_jobs_that_no_node_suits_are_counted(tmp_path: Path) -> None:
    assert read(tmp_path, {"Constraints": "gone"}).notes == (
        "Jobs that no node of the site suits: 1. They never start in replays.",
    )
    with pytest.raises(InputError, match=r"job 7: the constraint 'a&' cannot be read"):
        read(tmp_path, {"Constraints": "a&"})


def test_without_a_line_of_submission_several_nodes_are_just_so_many_and_a_note_says_what_is_lost(tmp_path: Path) -> None:
    log = read(tmp_path, {"ReqTRES": "cpu=8,node=3"}, {"JobID": "8"}, without=("SubmitLine",))
    assert log.table[["min_nodes", "max_nodes"]].to_numpy().tolist() == [[3, 3], [1, 0]]
    assert len(log.notes) == 1
    assert log.notes[0].startswith(
        "The file has no column SubmitLine: dependencies and throttles are taken from when jobs became eligible"
    )


def test_pages_show_the_one_export_that_has_all_columns() -> None:
    house = Path(__file__).parents[4]
    for page in ("README.md", "docs/how-to/slurm.md"):
        assert [line for line in (house / page).read_text().splitlines() if line.startswith("sacct --")] == [EXPORT]
    assert EXPORT.endswith("Constraints,JobName,SubmitLine > accounting.txt"), "free text stands last"


def test_each_column_of_the_export_that_is_taken_away_is_named(tmp_path: Path) -> None:
    exported = EXPORT.split()[-3].split(",")
    assert set(exported) == set(COLUMNS)
    assert read(tmp_path, {}).lacking == ()
    for name in exported:
        if name in NEEDED.values():
            with pytest.raises(InputError, match=name):
                read(tmp_path, {}, without=(name,))
            continue
        named = (name,) if name in ABSENT else ()  # replays do not read the others
        jobs = read(tmp_path, {}, without=(name,))
        assert jobs.lacking == named
        assert {ABSENT[each].note(each) for each in named} <= set(jobs.notes)


def test_what_a_missing_column_costs_is_what_was_measured() -> None:
    measured = pd.read_csv(Path(__file__).parents[4] / "docs/studies/data/slurm-columns.csv").set_index("column")
    in_notes = {name: each[1:] for name, each in ABSENT.items()}
    assert in_notes == {name: tuple(row) for name, row in measured.iterrows()}
