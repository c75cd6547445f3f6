"""What ``queuecast machine`` says of a Slurm site, and the commands that make its folder."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from pipelines.cli import cli

CONF = "SlurmctldHost=here\nSlurmctldPort=6817\nNodeName=n1 CPUs=1\nPartitionName=all Nodes=n1\n"


def test_the_accounting_is_made_outside_the_folder() -> None:
    lines = CliRunner().invoke(cli, ["machine", "--commands"]).stdout.splitlines()
    assert lines[0].startswith("mkdir -p site && cd site")
    assert lines[-2].startswith("cd ..")
    assert lines[-1].endswith("> accounting.txt")
    assert not any(line.startswith("echo") for line in lines), "no made-up number"


def test_harmless_settings_are_counted_and_what_matters_is_said(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    text = CliRunner().invoke(cli, ["machine", str(tmp_path)]).stdout
    assert "Every setting here that changes which jobs may run where is modelled." in text
    assert "not read: 2, " in text
    assert "slurmctldhost" not in text
    assert "reservations: 0" in text
