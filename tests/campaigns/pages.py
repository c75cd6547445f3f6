"""Put hostile names into every template, page, Markdown table and terminal table."""

from __future__ import annotations

import base64
import io
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import meta
from rich.markup import escape

from features.jobs.schema import Trace
from pipelines.report import page as pages
from pipelines.report.campaign import render_campaign
from pipelines.report.html import render_report
from pipelines.report.importances import importances
from pipelines.report.style import encode
from pipelines.report.table import Table, markdown_of
from pipelines.report.terminal import _Console
from sim import Campaign, run_campaign, split_windows
from sim.campaigns.window_comparison import over_windows
from tests.campaigns.counts import Counts
from tests.support.arriving import arriving
from tests.support.command import queuecast
from tests.support.patience import FOREVER_S

ATTEMPTS = 1500
_IN_BROWSER = 25
"""One of so many pages is opened by a browser, where there is one."""
MARK = "survived"
"""What a script that runs leaves on the page."""
_SCRIPT = f"document.documentElement.setAttribute('data-{MARK}','1')"
HOSTILE = (
    f"<script>{_SCRIPT}</script>",
    f'"><img src=x onerror="{_SCRIPT}">',
    f"'><svg/onload={_SCRIPT}>",
    f"</style><script>{_SCRIPT}</script><style>",
    f"</title></textarea></noscript>--><script>{_SCRIPT}</script>",
    "{{7*7}}{% raw %}{#",
    f"javascript:{_SCRIPT}",
    f"[x](javascript:{_SCRIPT})",
    "![x](http://evil.example/pixel)",
    "[a]: http://evil.example",
    "<http://evil.example>",
    "`</code><img src=x onerror=1>`",
    "[link=http://evil.example]x[/link][bold red]",
    "[/bold][/]",
    "a|b\\|c\\",
    "line\nbreak\r\n# heading",
    "nul\x00and\x1b[2J\x1b]0;title\x07\x9b31m",
    "\u202egnp.exe\u2066\u200f",
    '=HYPERLINK("http://evil.example")',
    "$x^{\\frac{1}$ $\\unknown$ $",
    "&lt;script&gt; &amp;#60;",
    "\ud800 half",
    "expression(alert(1));background:url(http://evil.example)",
    "]]><!--<script>",
    "x" * 3000,
    " ",
    "_hidden",
    "%s %(a)s {0} {a.__class__}",
)
_ELEMENTS = re.findall(
    r"\w+",
    "html head meta title style body main header section footer h1 h2 h3 p ul ol li b i em strong span small a img figure figcaption "
    "table thead tbody tr th td dl dt dd div details summary code pre cite sup sub br",
)
_ATTRIBUTES = re.findall(r"[\w-]+", "lang charset name content http-equiv class id style href src alt title data-label")
_IMAGE = re.compile(r"data:image/(svg\+xml|png);base64,[A-Za-z0-9+/=]*")
_LINK = re.compile(r"[\w.-]+\.(?:html|csv)|#[\w-]+")
_STYLE = re.compile(r"(background|color|width|height):[\w#().%-]+;?")
_ORDERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Survey(HTMLParser):
    """Note what a page has beyond text and the elements and attributes of our own."""

    def __init__(self, text: str, *, trusted: bool = True) -> None:
        """``trusted``: addresses and styles are our own, so they must look like it."""
        super().__init__()
        self.faults: list[str] = []
        self._trusted, self._policy = trusted, False
        self.feed(text)
        if not self._policy:
            self.faults.append("no content security policy")
        if match := _ORDERS.search(text):
            self.faults.append(f"the character {match[0]!r}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _ELEMENTS:
            self.faults.append(f"the element {tag}")
        for name, value in attrs:
            if name not in _ATTRIBUTES:
                self.faults.append(f"the attribute {name} of {tag}")
            form = {"src": _IMAGE, "href": _LINK, "style": _STYLE}.get(name)
            if self._trusted and form is not None and not form.fullmatch(value or ""):
                self.faults.append(f"{tag} {name}={(value or '')[:80]}")
            if name == "src" and (value or "").startswith("data:image/svg+xml;base64,"):
                self.faults += svg_faults(base64.b64decode((value or "").partition(",")[2]))
            self._policy = self._policy or (name == "content" and (value or "").startswith("default-src 'none'"))

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"a comment {data[:40]}")


def svg_faults(content: bytes) -> list[str]:
    """List what a drawing has that may run or load anything."""
    try:
        root = ET.fromstring(content)
    except ET.ParseError as error:
        return [f"a drawing that is no XML: {error}"]
    faults = []
    for each in root.iter():
        name = str(each.tag).rpartition("}")[2]
        if name in ("script", "foreignObject", "a", "iframe", "use-external"):
            faults.append(f"the element {name} in a drawing")
        for key, value in each.attrib.items():
            own = key.rpartition("}")[2]
            if own.startswith("on") or (own == "href" and not value.startswith(("#", "data:image/png"))):
                faults.append(f"{name} {own}={value[:60]} in a drawing")
    return faults


class Poison(str):
    """A text that has every attribute and member, all of them hostile, and may be called."""

    rng: np.random.Generator
    _OWN = re.findall(r"\w+", "rng join replace upper lower encode splitlines isprintable isascii translate")

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") or name in Poison._OWN:
            return super().__getattribute__(name)
        return poison(super().__getattribute__("rng"))

    def __getitem__(self, key: Any) -> Any:
        return poison(self.rng)

    def __iter__(self) -> Iterator[Any]:
        yield from (poison(self.rng), poison(self.rng))

    def __lt__(self, other: Any) -> bool:
        return True

    __le__ = __gt__ = __ge__ = __lt__

    def __float__(self) -> float:
        return 1.5

    def __truediv__(self, other: Any) -> float:
        return 1.5

    def __format__(self, form: str) -> str:
        return str.__str__(self)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return poison(self.rng)


def poison(rng: np.random.Generator) -> Poison:
    value = Poison(hostile(rng))
    value.rng = rng
    return value


def hostile(rng: np.random.Generator) -> str:
    """Draw one hostile text, or two behind each other."""
    return "".join(rng.choice(np.array(HOSTILE, object), rng.integers(1, 3)))


def stored(rng: np.random.Generator) -> str:
    """Draw a hostile text as a column of text can hold it."""
    return hostile(rng).replace("\ud800", "")


def templates() -> list[str]:
    """List the templates of pages."""
    return sorted(
        path.name for path in Path(pages.__file__).parent.glob("*.html.j2") if path.name not in ("base.html.j2", "parts.html.j2")
    )


def poisoned(name: str, rng: np.random.Generator) -> str:
    """Return the page of a template all of whose values are hostile."""
    template = pages.template(name)
    folder = Path(pages.__file__).parent
    sources = [
        template.environment.parse((folder / each).read_text(encoding="utf-8"))
        for each in dict.fromkeys((name, "site.html.j2", "base.html.j2"))
    ]
    names = set().union(*map(meta.find_undeclared_variables, sources))
    numbers = {each: 3 for each in names if each in ("weeks", "replicates", "repeat")}
    return template.render({each: poison(rng) for each in names} | numbers)


def report(rng: np.random.Generator) -> str:
    """Return the page of a comparison of schedules with hostile names."""
    from sim.metrics.comparison import compare
    from tests.pipelines.report.test_report import predictions_of, schedules_of

    renamed = {name: stored(rng) for name in ("last2", "EASY-SJBF", "toy")}
    schedules = schedules_of(jobs=40)
    for each in schedules:
        for field in ("scheduler", "predictor", "trace"):
            object.__setattr__(each, field, renamed.get(getattr(each, field), getattr(each, field)))
    return render_report(
        trace=hostile(rng),
        comparison=compare(schedules),
        schedules=schedules,
        quality=predictions_of(schedules),
        cleaning_counts=pd.Series({("dropped", stored(rng)): 8, ("altered", "runtime-cut-to-request"): 1470}),
        provenance={hostile(rng): hostile(rng), "parameters": {hostile(rng): hostile(rng)}},
        notes=[hostile(rng)],
        generated=False,
        kinds={renamed["last2"]: hostile(rng)},
        since=hostile(rng),
    )


def campaign_page(rng: np.random.Generator) -> str:
    """Return the page of a campaign with hostile names."""
    from tests.sim.campaigns.test_campaign import JOBS, WIDTH

    windows = split_windows(JOBS, "weeks")
    table = run_campaign(
        JOBS, Campaign(schedulers=("EASY", "SAF-EASY-SPF")), procs=WIDTH, windows=windows, trace=stored(rng), generated=False
    )
    for column in ("scheduler", "predictor"):
        table[column] = table[column].replace({"SAF-EASY-SPF": stored(rng)})
    return render_campaign(table, over_windows(table), windows, {hostile(rng): hostile(rng)}, notes=[hostile(rng)])


def commands(rng: np.random.Generator, folder: Path) -> list[str]:
    """List what is wrong with what commands say and write of a trace of hostile users, header and notes."""
    from pipelines.ingest.canonical import write_canonical

    (folder / "own").mkdir(parents=True, exist_ok=True)
    jobs = arriving(jobs=120)
    for name in ("user", "group", "executable", "queue"):
        texts = [stored(rng) for _ in range(len(jobs.jobs))]
        jobs.jobs[name] = pd.Categorical(np.where(rng.random(len(texts)) < 0.5, texts, "ann"))
    header = {"Computer": stored(rng), stored(rng): stored(rng), "Note": "\n".join(stored(rng) for _ in range(3))}
    trace = Trace("t", jobs.jobs, jobs.procs, jobs.origin_unix_s, jobs.timezone, header=header, notes=(stored(rng),))
    path = folder / re.sub(r"[\x00/]", "_", f"t{stored(rng)[:60]}.parquet")
    write_canonical(trace, path)
    asked: list[tuple[str, ...]] = [
        ("inspect", str(path)),
        ("simulate", str(path)),
        ("evaluate", str(path), "--predictor", "last2", "--out", str(folder / "e.parquet"), "--report", str(folder / "e.html")),
        ("campaign", str(path), "--scheduler", "EASY", "--out", str(folder / "c.parquet"), "--report", str(folder / "c.html")),
    ]
    faults = []
    for arguments in asked:
        done = queuecast(*arguments, home=folder / "own", cwd=folder)
        hits = terminal_faults(done.stdout) + terminal_faults(done.stderr) + (["a traceback"] if "Traceback" in done.stderr else [])
        faults += [f"{arguments[0]}: {fault}" for fault in hits]
    return faults + [
        f"{each.name}: {fault}" for each in folder.glob("?.html") for fault in Survey(each.read_text(encoding="utf-8")).faults
    ]


def drawings(rng: np.random.Generator) -> list[bytes]:
    """Return figures with hostile names."""
    importance = pd.Series([0.6, 0.4], index=pd.Index([f"{hostile(rng)}.{hostile(rng)}" for _ in range(2)], dtype=object))
    return [encode(importances(importance, hostile(rng), hostile(rng)), "svg")]


def printed(rng: np.random.Generator) -> str:
    """Return a table of hostile texts as a terminal shows it, with colours."""
    screen = _Console(width=int(rng.integers(20, 200)), file=io.StringIO(), force_terminal=True, color_system="truecolor")
    rows = [[hostile(rng) for _ in range(3)] for _ in range(2)]
    Table(hostile(rng), [hostile(rng) for _ in range(3)], rows, hostile(rng)).show(screen)
    screen.print(escape(hostile(rng)), highlight=False)
    return screen.file.getvalue()  # type: ignore[attr-defined]


def terminal_faults(text: str) -> list[str]:
    """List the orders to a terminal in ``text`` beyond those that set colours and weights."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    return [f"the character {character!r} on the terminal" for character in sorted(set(_ORDERS.findall(plain)))]


def markdown_faults(text: str) -> list[str]:
    """List what a table of Markdown has beyond text: HTML, links, code, other numbers of cells."""
    faults = [f"HTML {tag}" for tag in re.findall(r"<(?!br>)[^ ]{,20}", text)]
    faults += [f"unescaped {each[-1]}" for each in re.findall(r"(?<!\\)(?:\\\\)*[`\[]", text)]
    widths = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in text.splitlines()}
    return faults + ([f"rows of {sorted(widths)} bars"] if len(widths) > 1 else [])


def browser() -> str | None:
    """Return a browser that runs without a screen, if there is one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def runs_in(program: str, text: str, folder: Path) -> list[str]:
    """List what a browser does on a page that no text may make it do."""
    (folder / "page.html").write_text(text, encoding="utf-8", errors="replace")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=2000",
        "--dump-dom",
    ]
    done = subprocess.run(
        [program, *options, f"file://{folder / 'page.html'}"], capture_output=True, text=True, timeout=FOREVER_S, check=False
    )
    if "<main" not in done.stdout:
        return [f"the browser shows no page: {done.stderr[-200:]}"]
    return ["a script ran in the browser"] if re.search(rf"<html[^>]*data-{MARK}", done.stdout) else []


def campaign(attempts: int, seed: int, folder: Path) -> Counts:
    """Make pages, drawings and tables of hostile texts; every one must hold them as text."""
    counts, program = Counts(), browser()
    kinds: dict[str, Callable[[np.random.Generator], list[str]]] = {
        **{name: lambda rng, name=name: Survey(poisoned(name, rng), trusted=False).faults for name in templates()},
        "report": lambda rng: Survey(report(rng)).faults,
        "campaign": lambda rng: Survey(campaign_page(rng)).faults,
        "drawings": lambda rng: [fault for each in drawings(rng) for fault in svg_faults(each)],
        "terminal": lambda rng: terminal_faults(printed(rng)),
        "Markdown": lambda rng: markdown_faults(markdown_of(pd.DataFrame({stored(rng): [stored(rng), stored(rng)], "b": [1, 2]}))),
    }
    kinds["commands"] = lambda rng: commands(rng, folder / f"{rng.integers(10**9)}")
    slow = ("report", "campaign", "commands")
    order = [*kinds, *(name for _ in range(12) for name in kinds if name not in slow)]
    for attempt in range(attempts):
        name = order[attempt % len(order)]
        try:
            faults = kinds[name](np.random.default_rng([seed, attempt]))
        except Exception as error:  # whatever a name makes a page raise is a finding
            faults = [f"{type(error).__name__}: {error}"]
        if program and attempt % _IN_BROWSER == 0 and name.endswith(".j2"):
            faults += runs_in(program, poisoned(name, np.random.default_rng([seed, attempt])), folder)
            counts.outcomes["opened in a browser"] += 1
        counts.add(
            "text" if not faults else "not text",
            f"{name}, seed {seed}, attempt {attempt}: {'; '.join(faults[:3])}" if faults else None,
        )
    if not program:
        counts.outcomes["no browser here"] += 1
    return counts
