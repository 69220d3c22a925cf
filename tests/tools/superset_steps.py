"""What superset_run.py does in Superset's own environment, over its REST API: `superset_steps.py PLACES`.

PLACES is JSON: `{"embedded": {"port": 3307, "database": "main"}}`. Each has a queue `letters` of three messages.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from superset.app import create_app


class Api:
    """A client that is logged in."""

    def __init__(self) -> None:
        self._client = create_app().test_client()
        login = {"username": "admin", "password": "admin", "provider": "db"}
        token = self.post("security/login", login, headers={})["access_token"]
        self._headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> Any:
        return _read(path, self._client.get(f"/api/v1/{path}", headers=self._headers))

    def post(self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
        sent = self._headers if headers is None else headers
        return _read(path, self._client.post(f"/api/v1/{path}", json=body, headers=sent))

    def delete(self, path: str) -> None:
        _read(path, self._client.delete(f"/api/v1/{path}", headers=self._headers))


def _read(path: str, answer: Any) -> Any:
    if answer.status_code >= 300:
        raise SystemExit(f"{path}: {answer.status_code} {answer.get_data(as_text=True)[:2000]}")
    return answer.get_json()


def chart(api: Api, name: str, uri: str, table: str, columns: list[str]) -> list[dict[str, Any]]:
    """The rows of a chart that counts by these columns, with a database and a dataset made for it."""
    schema = uri.rpartition("/")[2]
    database = api.post("database/", {"database_name": name, "sqlalchemy_uri": uri})["id"]
    schemas = api.get(f"database/{database}/schemas/?q=(force:!t)")["result"]
    if schema not in schemas:
        raise SystemExit(f"{name}: the schemas are {schemas}")
    tables = api.get(f"database/{database}/tables/?q=(schema_name:{schema},force:!t)")["result"]
    if table not in [found["value"] for found in tables]:
        raise SystemExit(f"{name}: the tables are {tables}")
    dataset = api.post("dataset/", {"database": database, "schema": schema, "table_name": table})["id"]
    query = {"columns": columns, "metrics": ["count"], "row_limit": 100, "orderby": [[columns[0], True]]}
    source = {"id": dataset, "type": "table"}
    answer = api.post("chart/data", {"datasource": source, "queries": [query], "force": True})
    rows: list[dict[str, Any]] = answer["result"][0]["data"]
    api.delete(f"dataset/{dataset}")  # in SQLite, Superset's own tables allow one dataset of a name
    return rows


def main(places: dict[str, dict[str, Any]]) -> int:
    """A dataset on a queue and one on the counters, in each place."""
    api, right = Api(), True
    for place, where in places.items():
        for schema, table, columns, expected in (
            (where["database"], "letters", ["body"], [{"body": "one", "count": 1}, {"body": "two", "count": 2}]),
            ("queuegate", "queues", ["queue", "ready"], [{"queue": "letters", "ready": 3, "count": 1}]),
        ):
            uri = f"mysql+pymysql://root@127.0.0.1:{where['port']}/{schema}"
            rows = chart(api, f"{place} {schema}", uri, table, columns)
            print(f"{place}: {schema}.{table}: {json.dumps(rows)}", flush=True)
            right = right and rows == expected
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
