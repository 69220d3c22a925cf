"""`python -m spark_connector.jobs JOB ...`; also the file for spark-submit."""

import sys

from spark_connector.jobs.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
