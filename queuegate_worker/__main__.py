"""`python -m queuegate_worker`: the same as `queuegate-work`."""

import sys

from queuegate_worker.command import main

if __name__ == "__main__":
    sys.exit(main())
