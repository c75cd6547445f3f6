"""``python -m pipelines`` is ``queuecast``."""

import sys

from pipelines import hidden


def main() -> None:
    """Run the command line, unless a module of the user's hides a part of it."""
    if line := hidden():
        print(f"queuecast: {line}", file=sys.stderr)
        sys.exit(2)
    from pipelines.cli import main as run

    run()


if __name__ == "__main__":
    main()
