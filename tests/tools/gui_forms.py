"""Row forms of Adminer and phpMyAdmin on a queue: fetch the form, send it back with a body, see the message.

    python tests/tools/gui_forms.py                      # starts a gate on each backend and both programs

Needs PHP and Debian's packages adminer and phpmyadmin (`apt-get install --no-install-recommends adminer phpmyadmin`).
Prints one line for each step; exit code 1 where a form does not insert a message.
"""

from __future__ import annotations

import contextlib
import html.parser
import http.cookiejar
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from servers import Gate, MariaDb, Sql, free_port, wait_until

ADMINER = Path("/usr/share/adminer")
PHPMYADMIN = Path("/usr/share/phpmyadmin")
QUEUE = "CREATE QUEUE IF NOT EXISTS letters (body VARCHAR(100), n INT NOT NULL DEFAULT 7)"


class Form(html.parser.HTMLParser):
    """The fields of a page's forms as a browser would send them, by the form's number."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self.actions: list[str] = []
        self._text: str | None = None
        self._select: str | None = None
        self._options: list[tuple[bool, str | None, str]] = []  # selected, value, text
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        if tag == "form":
            self.forms.append({})
            self.actions.append(values.get("action", ""))
            return
        fields = self.forms[-1] if self.forms else {}
        name = values.get("name", "")
        if tag == "input" and name:
            checkable = values.get("type", "text").lower() in ("checkbox", "radio")
            if (not checkable or "checked" in values) and values.get("type", "").lower() not in ("submit", "image"):
                fields[name] = values.get("value", "on" if checkable else "")
        elif tag == "select" and name:
            self._select, self._options = name, []
        elif tag == "option" and self._select is not None:
            self._options.append(("selected" in values, values.get("value"), ""))
        elif tag == "textarea" and name:
            self._text = name
            fields[name] = ""

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self.forms[-1][self._text] += data
        if self._select is not None and self._options:
            selected, value, text = self._options[-1]
            self._options[-1] = (selected, value, text + data.strip())

    def handle_endtag(self, tag: str) -> None:
        if tag == "select" and self._select is not None:
            chosen = [option for option in self._options if option[0]] or self._options[:1]
            if self.forms and chosen:
                _, value, text = chosen[-1]
                self.forms[-1][self._select] = text if value is None else value
            self._select = None
        elif tag == "textarea":
            self._text = None


class Browser:
    """Cookies, and nothing else."""

    def __init__(self, base: str) -> None:
        self.base = base
        jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        self.page = ""

    def get(self, path: str, fields: dict[str, str] | None = None) -> str:
        data = None if fields is None else urllib.parse.urlencode(fields).encode()
        with self._opener.open(self.base + path, data, timeout=60) as answer:
            self.page = answer.read().decode("utf-8", "replace")
        return self.page


@contextlib.contextmanager
def php(root: Path, *options: str) -> Iterator[str]:
    """PHP's own web server on a folder."""
    port = free_port()
    command = ["php", *options, "-S", f"127.0.0.1:{port}", "-t", str(root)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        base = f"http://127.0.0.1:{port}"
        wait_until(lambda: _answers(base), what="PHP's web server")
        yield base
    finally:
        process.terminate()
        process.wait(10)


def _answers(base: str) -> bool:
    try:
        urllib.request.urlopen(base + "/", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def adminer(gate: Gate, database: str) -> str:
    """Insert a row with Adminer's form; returns the body."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        # Debian's Adminer refuses an empty password; this hook says yes, as its documentation shows.
        (root / "index.php").write_text(
            "<?php function adminer_object() { class Open extends Adminer {"
            " function login($login, $password) { return true; } } return new Open; }"
            f" chdir('{ADMINER}/adminer'); include '{_adminer_file()}';"
        )
        with php(root) as base:
            browser = Browser(base + "/index.php")
            server = f"127.0.0.1:{gate.port}"
            browser.get("", {"auth[driver]": "server", "auth[server]": server, "auth[username]": "root",
                             "auth[password]": "", "auth[db]": database})  # fmt: skip
            query = urllib.parse.urlencode({"server": server, "username": "root", "db": database, "edit": "letters"})
            page = Form(browser.get(f"?{query}"))
            fields = next(form for form in page.forms if "fields[body]" in form)
            fields |= {"fields[body]": "from adminer", "insert": "1"}
            fields |= {name: "" for name in fields if name == "function[body]"}
            result = browser.get(f"?{query}", fields)
            _explain(result, ("class='error'", 'class="error"'))
    return "from adminer"


def _adminer_file() -> str:
    bundled = sorted(ADMINER.glob("adminer-*.php")) + sorted(ADMINER.glob("adminer.php"))
    return str(bundled[0]) if bundled else str(ADMINER / "adminer" / "index.php")


def phpmyadmin(gate: Gate, database: str) -> str:
    """Insert a row with phpMyAdmin's form; returns the body."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        subprocess.run(["cp", "-rL", str(PHPMYADMIN), str(root)], check=True)
        config = (
            "<?php $cfg['blowfish_secret'] = '0123456789abcdef0123456789abcdef'; $i = 1;"
            "$cfg['Servers'][1] = ['auth_type' => 'config', 'host' => '127.0.0.1', 'port' => '%d', 'user' => 'root',"
            " 'password' => '', 'AllowNoPassword' => true]; $cfg['TempDir'] = '%s';"
        )
        (root / "config.inc.php").write_text(config % (gate.port, folder))
        vendor = root / "libraries" / "vendor_config.php"
        vendor.write_text(vendor.read_text().replace("/etc/phpmyadmin/", f"{root}/"))
        with php(root, "-d", f"session.save_path={folder}", "-d", "display_errors=0") as base:
            browser = Browser(base)
            page = Form(browser.get(f"/index.php?route=/table/change&db={database}&table=letters"))
            fields = next(form for form in page.forms if any(name.startswith("fields[multi_edit][0]") for name in form))
            key = next(name for name, value in _names(fields).items() if value == "body")
            fields[key] = "from phpmyadmin"
            fields = {name: value for name, value in fields.items() if not name.endswith(f"[{_tail(key)}]")
                      or not name.startswith("fields_null")}  # fmt: skip
            fields |= {"submit_type": "insert", "after_insert": "back", "ajax_request": "1"}
            result = browser.get("/index.php?route=/table/replace", fields)
            _explain(result, ('"success":false', "#1366"))
    return "from phpmyadmin"


def _tail(key: str) -> str:
    return key.rsplit("[", 1)[1].rstrip("]")


def _names(fields: dict[str, str]) -> dict[str, str]:
    """phpMyAdmin's field names, by the hash of the column: `fields_name[multi_edit][0][hash]` is the column."""
    return {
        f"fields[multi_edit][0][{_tail(name)}]": value
        for name, value in fields.items()
        if name.startswith("fields_name[multi_edit][0]")
    }


def _explain(page: str, marks: tuple[str, ...]) -> None:
    for mark in marks:
        at = page.find(mark)
        if at >= 0:
            print("   the page says:", page[at : at + 600].replace("\n", " "))


def check(gate: Gate) -> bool:
    """Both forms on one backend."""
    right = True
    with gate.connect() as connection:
        sql = Sql(connection)
        sql(QUEUE)
        for form in (adminer, phpmyadmin):
            body = form(gate, gate.database)
            rows = sql.rows("SELECT id, body, n FROM STREAM letters LIMIT 1 WAIT 2")
            good = [row[1:] for row in rows] == [(body, 7)]
            print(f"{'embedded' if gate.embedded else 'mariadb'}: {form.__name__}: {'a message' if good else rows}")
            right = right and good
            for row in rows:
                sql(f"ACK letters {row[0]}")
    return right


def main() -> int:
    """Both backends."""
    right = True
    with tempfile.TemporaryDirectory() as folder:
        server = MariaDb()
        try:
            server.install()
            server.start()
            server.prepare()
            for name, url in (("embedded", f"sqlite:///{folder}/queue.db"), ("mariadb", server.url())):
                directory = Path(folder) / name
                directory.mkdir()
                gate = Gate(url, directory).start()
                try:
                    right = check(gate) and right
                finally:
                    gate.stop()
        finally:
            server.remove()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
