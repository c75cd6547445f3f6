"""``python -m pipelines`` is ``queuecast``."""

from pipelines.cli import main

main()
