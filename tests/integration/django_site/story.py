"""A client that is a Django project: runs sections named on the command line and prints what it saw.

Arguments: host, port, user, database, sections; those are functions of chapters.py.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback

import django
import pymysql


def main(port: str, database: str, sections: list[str]) -> int:
    os.environ.update(QG_PORT=port, QG_DATABASE=database, DJANGO_SETTINGS_MODULE="settings")
    pymysql.install_as_MySQLdb()
    django.setup()
    chapters = importlib.import_module("chapters")  # its models can be imported only now
    failed = 0
    for name in sections:
        print(f"== {name}")
        try:
            getattr(chapters, name)()
            print("-- done")
        except (Exception, SystemExit):
            failed += 1
            print("-- failed")
            traceback.print_exc()
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[2], sys.argv[4], sys.argv[5:]))
