"""The command line: one file per command, imported only when used.

So a simulation does not pay for the imports of other commands.
"""

import gc
import os
import signal
import sys
import time

import click

from pipelines.cli.lazy import LazyGroup

_COMMANDS = {
    "run": "materialise the whole pipeline",
    "simulate": "schedule a trace under schedulers and predictors",
    "evaluate": "judge the predictions of runtime predictors on a trace",
    "inspect": "say what is in a trace before anything runs",
    "traces": "list the catalogue",
    "predict": "predict runtimes with a registered model",
    "serve": "answer over HTTP from registered models, following their aliases",
    "fetch": "download a trace of the catalogue, checked",
    "campaign": "compare many combinations over the weeks or months of a trace",
    "parity": "say how far replays of a Slurm site are from its accounting",
    "limits": "say which time limits users could ask for, and how much sooner their jobs would start",
    "whatif": "say what a site should change, what it would bring, and at whose cost",
    "when": "say when the jobs of a queue start, and what would start sooner",
    "machine": "show what the files of a Slurm site say, and how to make them",
    "policies": "learn an order of waiting jobs on a trace; show, write and register policies",
    "nights": "replay a trace night by night: retrain, judge, promote or refresh, report",
    "variability": "performance variability: counters, control runs, models",
    "doctor": "say whether what is published and served is whole, or go back",
    "lake": "say where each published table lies",
    "ui": "start the web server on what was materialised",
}


def _tell_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version, in a git checkout with its commit, and end."""
    if wanted:
        from pipelines.lake.provenance import code_version

        click.echo(f"queuecast {code_version()}")
        context.exit()


@click.group(cls=LazyGroup, package=__name__, summaries=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_tell_version, help="Print the version and its commit."
)
def cli() -> None:
    """Learn job runtimes from a cluster's logs; simulate what better predictions change.

    Runtimes are predicted for jobs at submission; simulations measure what the predictions do to the schedule.
    """
    from pipelines.readers import site_file

    site_file.apply()


def main() -> None:
    """Run the command line.

    It prints one line for any error. The exit code is 2 for bad input, and 0 only if everything requested was done.
    """
    os.umask(0o077)  # what is written holds users' names and accounting
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to look for them reads the metadata of all packages
    for ending in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # Dagster gives SIGTERM the handler of SIGINT, which a shell's background job ignores
        signal.signal(ending, signal.default_int_handler)
    gc.disable()  # until the command is imported: collections during imports take a tenth of a second
    from pipelines.cli.last_resort import tell

    try:
        cli(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except (Exception, KeyboardInterrupt) as error:
        code = tell(error)
        # wait until Arrow's threads have released Python objects: a thread that needs the interpreter later aborts the process
        time.sleep(0.02)
        sys.exit(code)
    finally:
        gc.enable()
