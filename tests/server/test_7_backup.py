"""A back-up in the order that the recipe says, and everything put back after all of it was lost."""

from __future__ import annotations

from tests.server.conftest import SUBJECT, run_of
from tests.server.services import LOOPBACK, programs_of_postgres
from tests.server.site import SECRETS, Site
from tests.support.patience import run


def postgres(site: Site, user: str, *command: str, given: str = "") -> str:
    """Return what one of PostgreSQL's programs prints, run for ``user``."""
    program, *arguments = command
    asked = [str(programs_of_postgres() / program), "-h", LOOPBACK, "-p", str(site.ports["postgres"]), "-U", user, *arguments]
    env = {**site.clean(), "PGPASSWORD": SECRETS[user]}
    done = run(asked, site.root, env=env, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_was_backed_up_serves_again_after_all_was_lost(ran: Site) -> None:
    site, quiet = ran, [name for name in ("daemon", "web") if name in ran.services]
    lake = site.objects("home/")
    registry = postgres(site, "mlflow", "pg_dump", "mlflow")
    artifacts = site.objects("mlflow/")
    history = postgres(site, "queuecast", "pg_dump", "queuecast")
    before = site.published(SUBJECT)

    for name in (*quiet, "mlflow"):
        site.services[name].stop()
    site.put_objects({}, remove="")
    for name in ("mlflow", "queuecast"):
        for order in (f"DROP DATABASE {name} WITH (FORCE)", f"CREATE DATABASE {name} OWNER {name}"):
            postgres(site, "admin", "psql", "-qc", order, "postgres")

    site.put_objects({**lake, **artifacts})
    for name, dump in (("mlflow", registry), ("queuecast", history)):
        postgres(site, name, "psql", "-q", "-v", "ON_ERROR_STOP=1", name, given=dump)
    for name in ("mlflow", *reversed(quiet)):  # the web server tells whether the daemon is well
        site.services[name].start()
    assert site.queuecast("doctor", "--repair").returncode == 0
    assert site.published(SUBJECT) == before
    done = site.queuecast(*run_of(site))
    assert done.returncode == 0, done.stderr
