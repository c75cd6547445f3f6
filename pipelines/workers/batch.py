"""Workers that are jobs of a batch system, submitted by dask-jobqueue.

A site's settings for jobs (partition, account, walltime, cores, memory, lines of the script) are in dask-jobqueue's own
configuration file; a few options take precedence. This process is the scheduler. Its traffic is encrypted, and it accepts only
holders of this run's certificates, which are in a folder that no other user can read.
"""

import re
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dask
import dask_jobqueue
from distributed import Client

from features.errors import InputError, one_line
from models.runtime.options import check_known, whole
from pipelines.workers.cluster import Say, WorkersFailed, counted
from pipelines.workers.work import OnWorkers

JOBS = 4
"""Default number of jobs."""
OPTIONS = ("jobs", "cores", "processes", "memory", "walltime", "queue", "account", "interface")
"""The number of jobs, and keywords of dask-jobqueue, as in ``slurm(jobs=10,queue=short)``."""
_LEAST = {"cores": 1, "memory": "2 GiB"}
"""Requests of a job that neither options nor configuration set."""
_NO_PAGES = "127.0.0.1:0"
"""Address of Dask's own pages: only this machine can see them."""
_LOST_S = 10.0
"""Seconds without a worker after which a job that had one is replaced."""
_ASK_S = 20.0
"""Seconds between questions to Slurm about waiting jobs."""


@contextmanager
def batch_jobs(system: str, class_name: str, options: Mapping[str, str], say: Say) -> Iterator[OnWorkers]:
    """Yield a cluster of jobs of ``system``; ``options`` has their number and requests.

    Raises InputError for unknown options, and if the batch system refuses.
    """
    for option in options:
        check_known(option, OPTIONS)
    jobs = whole("jobs", options.get("jobs", str(JOBS)), minimum=1, maximum=100_000)
    folder = _folder()
    try:
        with ExitStack() as stack:
            removal = stack.enter_context(ExitStack())
            removal.callback(shutil.rmtree, folder, ignore_errors=True)
            cluster = _cluster(system, class_name, {name: text for name, text in options.items() if name != "jobs"}, folder)
            for name in ("ca_file", "cert", "key"):  # files of dask-jobqueue in the folder
                stack.callback(getattr(cluster, f"_job_{name}").close)
            held = _Held(system, stack.enter_context(cluster), jobs, say)
            client = stack.enter_context(Client(cluster, set_as_default=False, name="queuecast"))
            held.submit()
            say(f"{system}: {counted(jobs, 'job')} submitted for workers; logs: {folder}")
            try:
                yield OnWorkers(client, system, say, mend=held.mend)
            except WorkersFailed:
                removal.pop_all()  # keep the logs, which may say why
                raise
    except (OSError, RuntimeError, ImportError) as error:
        raise InputError(f"{system}: {_reason(error)}") from error


def _cluster(system: str, class_name: str, options: Mapping[str, str], folder: Path) -> Any:
    """Return the cluster of dask-jobqueue, without jobs yet."""
    configured = dask.config.get(f"jobqueue.{system}", {})
    asked: dict[str, Any] = {name: value for name, value in _LEAST.items() if configured.get(name) is None}
    asked |= {
        name: str(folder) for name in ("shared_temp_directory", "log_directory") if not configured.get(name.replace("_", "-"))
    }
    asked |= {
        name: whole(name, text, minimum=1, maximum=10_000) if name in ("cores", "processes") else text
        for name, text in options.items()
    }
    if configured.get("processes") is None:
        asked.setdefault("processes", int(asked.get("cores") or configured["cores"]))  # threads would wait for the interpreter
    asked["scheduler_options"] = {"dashboard_address": _NO_PAGES} | (configured.get("scheduler-options") or {})
    asked["worker_extra_args"] = [*(configured.get("worker-extra-args") or ()), "--dashboard-address", _NO_PAGES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return getattr(dask_jobqueue, class_name)(security=True, **asked)
        except (ValueError, TypeError) as error:
            raise InputError(one_line(f"{system}: {error}")) from error


def _folder() -> Path:
    """Return a new folder in the home directory: all nodes see it, no other user can read it."""
    above = Path.home() / ".cache" / "queuecast"
    above.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="workers-", dir=above))


def _reason(error: Exception) -> str:
    """Return the message of a batch system's command, or else of the error."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no command {error.filename} here"
    match = re.search(r"stderr:\n(.+)", str(error))
    return one_line(match[1] if match else str(error))


class _Held:
    """The jobs of a cluster, kept at the requested number."""

    def __init__(self, system: str, cluster: Any, jobs: int, say: Say) -> None:
        self.system, self.cluster, self.jobs, self.say = system, cluster, jobs, say
        self._alive: dict[str, float] = {}
        self._asked = time.monotonic()

    def submit(self) -> None:
        """Submit the missing jobs; raise RuntimeError with the batch system's message."""
        self.cluster.sync(self._submit)

    async def _submit(self, without: tuple[str, ...] = ()) -> None:
        for name in without:
            self.cluster.worker_spec.pop(name, None)
        while len(self.cluster.worker_spec) < self.jobs:
            self.cluster._i += 1  # a new name: Dask soon ends a job with the name of a lost one
            self.cluster.worker_spec.update(self.cluster.new_worker_spec())
        for name in without:
            if (job := self.cluster.workers.pop(name, None)) is not None:
                await job.close()
        try:
            await self.cluster._correct_state()
        finally:
            self.cluster._created.clear()  # so that jobs that the batch system refused do not block its end

    def mend(self) -> None:
        """Replace jobs whose workers are gone, that Slurm has lost, or that were not submitted."""
        now = time.monotonic()
        names = [str(worker.name) for worker in list(self.cluster.scheduler.workers.values())]
        self._alive |= dict.fromkeys([*names, *(name.rpartition("-")[0] for name in names)], now)  # NAME, NAME-0, NAME-1 of a job
        jobs = dict(self.cluster.workers)
        lost = {name for name in jobs if now - self._alive.get(name, now) > _LOST_S}
        waiting = {name: job for name, job in jobs.items() if name not in self._alive}
        ended = set(self.cluster.worker_spec) - set(jobs)  # by Dask itself, some time after their workers were lost
        if (waiting or ended) and now - self._asked > _ASK_S:
            self._asked = now
            lost |= ended | {name for name, job in waiting.items() if job.job_id is None} | self._cancelled(waiting)
        if not lost:
            return
        for name in lost:
            self._alive.pop(name, None)
        self.say(f"{self.system}: {len(lost)} of {self.jobs} jobs ended; others are submitted in their place")
        try:
            self.cluster.sync(self._submit, tuple(lost))
        except (OSError, RuntimeError) as error:
            self.say(f"{self.system}: {_reason(error)}")

    def _cancelled(self, waiting: Mapping[str, Any]) -> set[str]:
        """Return those of ``waiting`` that Slurm no longer has; other systems are not asked."""
        if self.system != "slurm":
            return set()
        asked = subprocess.run(["squeue", "--me", "--noheader", "--format=%A"], capture_output=True, text=True)
        present_ids = set(asked.stdout.split())
        return (
            set() if asked.returncode else {name for name, job in waiting.items() if job.job_id and job.job_id not in present_ids}
        )
