"""Run the code of the first argument, where a site's settings have been read as a command reads them."""

import sys

from pipelines.readers import site_file

if __name__ == "__main__":
    site_file.apply()
    exec(compile(sys.argv[1], "<program>", "exec"), {"__name__": "__main__"})
