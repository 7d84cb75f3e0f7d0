# SPDX-License-Identifier: Apache-2.0
"""parse.py FILE...: reads what the command wrote, with parsers that share no code with the command.

The end of a name says how the file is checked. .html: a page, in which every tag is closed, with
one script and its JSON. .drawn.html: what the script of a page shows (by draw.js), in which every
tag is closed, there is no script, and the SVG pictures are XML. Also .json, .csv (raw data of
tune), and .txt (UTF-8 without control characters). Exit 1: a file is wrong; the output says how.
"""

import csv
import html.parser
import json
import math
import re
import sys
import xml.etree.ElementTree

VOID = {"meta", "link", "br", "hr", "img", "input", "col", "wbr"}


class Balanced(html.parser.HTMLParser):
    """Checks that every tag is closed in its turn, and that no attribute is left open."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-]*", name):
                raise ValueError(f"line {self.getpos()[0]}: attribute {name!r} of <{tag}>")
            if name in ("src", "href") or name.startswith("on"):
                raise ValueError(f"line {self.getpos()[0]}: {name}={value!r}")
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise ValueError(f"line {self.getpos()[0]}: </{tag}> closes nothing")


def check_elements(text, expected):
    page = Balanced()
    page.feed(text)
    page.close()
    if page.open:
        raise ValueError(f"not closed: {page.open}")
    if page.seen & {"script", "iframe", "object", "b-b"} != expected or "title" not in page.seen:
        raise ValueError(f"elements: {sorted(page.seen)}")


def check_page(text):
    check_elements(text, {"script"})
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.S | re.I)
    if [attributes for attributes, _ in scripts] != [' type="application/json" id="data"', ""]:
        raise ValueError(f"scripts: {scripts}")
    if "<" in scripts[0][1]:
        raise ValueError("the data could end their element")
    check_json(scripts[0][1])


def check_drawn(text):
    check_elements(text, set())
    pictures = re.findall(r"<svg .*?</svg>", text, re.S)
    if not pictures:
        raise ValueError("no whole picture")
    for picture in pictures:
        xml.etree.ElementTree.fromstring(picture)
    check_text(text)


def check_json(text):
    def refuse(word):
        raise ValueError(f"{word} is no number of JSON")

    json.loads(text, parse_constant=refuse)


def check_csv(text):
    rows = [row for row in csv.reader(line for line in text.splitlines() if line[:1] != "#")]
    if rows[0] != ["round", "setting", "coll", "candidate", "bytes", "us"]:
        raise ValueError(f"header {rows[0]}")
    for row in rows[1:]:
        if row[0] == "done" and len(row) == 4:
            continue
        # what a call adds to GEMMs may be below 0, because times vary
        least = 0 if int(row[1]) < 15 else -math.inf
        if len(row) != 6 or not (least < float(row[5]) < math.inf) or int(row[4]) < 1:
            raise ValueError(f"row {row}")
    if len(rows) < 3:
        raise ValueError("no rows")


def check_text(text):
    if found := re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text):
        raise ValueError(f"{found.group()!r} after {text[: found.start()][-60:]!r}")


CHECKS = {
    "drawn.html": check_drawn,
    "html": check_page,
    "json": check_json,
    "csv": check_csv,
    "txt": check_text,
}
wrong = 0
for path in sys.argv[1:]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
        if not text:
            raise ValueError("empty")
        CHECKS["drawn.html" if path.endswith(".drawn.html") else path.rsplit(".", 1)[1]](text)
    except (ValueError, SyntaxError) as error:
        print(f"FAIL {path}: {error}")
        wrong = 1
sys.exit(wrong)
