"""The page in a real browser: it must load nothing, complain about nothing, and fit a phone."""

import json
import re
import shutil
import subprocess
from html import escape

import pytest

from cutlayer.reports import render_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed (apt-get install -y chromium)"
)


def visit(path, folder, *options):
    """Open a file, and return the DOM, the console's lines and what the page asked for."""
    log = folder / "net.json"
    run = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr",
            "--log-level=0",
            f"--log-net-log={log}",
            *options,
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    console = [line for line in run.stderr.splitlines() if ":CONSOLE" in line]
    return run.stdout, console, requests_of_the_page(json.loads(log.read_text()))


def requests_of_the_page(log):
    """Addresses that a page asked for; the browser's own requests have no origin."""
    return [
        event["params"]["url"]
        for event in log["events"]
        if event["type"] == log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
        and event.get("params", {}).get("initiator", "not an origin") != "not an origin"
    ]


def test_the_report_is_silent(page_text, tmp_path):
    (tmp_path / "report.html").write_text(page_text, encoding="utf-8")
    dom, console, requests = visit(tmp_path / "report.html", tmp_path)
    assert "What left the building, at worst" in dom
    assert console == []
    assert requests == []


def test_this_test_would_notice_a_request_and_an_error(tmp_path):
    noisy = tmp_path / "noisy.html"
    noisy.write_text("<img src='http://127.0.0.1:9/x.png'><script>console.error('boom')</script>")
    _, console, requests = visit(noisy, tmp_path)
    assert any("boom" in line for line in console)
    assert requests == ["http://127.0.0.1:9/x.png"]


@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_does_not_scroll_sideways(page_text, tmp_path, width):
    # A window is at least 500 pixels wide, a frame is not.
    (tmp_path / "frame.html").write_text(
        f"<title></title><iframe width={width} height=800 style='border:0' onload='"
        "const root = this.contentDocument.documentElement;"
        "document.title = `${root.clientWidth}/${root.scrollWidth}`'"
        f' srcdoc="{escape(page_text)}"></iframe>',
        encoding="utf-8",
    )
    dom, _, _ = visit(tmp_path / "frame.html", tmp_path)
    inner, needed = map(int, re.search(r"<title>(\d+)/(\d+)</title>", dom).groups())
    assert inner == needed
    assert width - 20 <= inner <= width


@pytest.mark.parametrize("width", [390, 1200])
def test_an_interval_is_neither_struck_through_nor_cut_off(
    make_findings, findings, tmp_path, width
):
    rows = [
        row.model_copy(update={"leak_auc_low": row.leak_auc - 0.02, "leak_auc_high": row.leak_auc})
        if row.leak_auc is not None
        else row
        for row in findings.rows
    ]
    # The bar is the background of a cell: its upper edge is at its y offset, from the padding box,
    # or, where that is said from the bottom, its height above the lower edge of the cell.
    measure = """
      const page = this.contentDocument, problems = [];
      const cells = [...page.querySelectorAll('.heat td.leak')].filter((cell) =>
        cell.querySelector('.by') && cell.getBoundingClientRect().width);
      for (const cell of cells) {
        const style = this.contentWindow.getComputedStyle(cell);
        const box = cell.getBoundingClientRect();
        const ends = cell.querySelector('.by').getBoundingClientRect();
        const mark = cell.querySelector('abbr').getBoundingClientRect();
        const number = page.createRange();
        number.selectNodeContents(cell.querySelector('.value').firstChild);
        const line = number.getBoundingClientRect();
        const size = parseFloat(style.backgroundSize.split(' ')[1]);
        const y = style.backgroundPositionY.split(',')[0];
        const down = y.endsWith('px');
        const top = down ? box.top + parseFloat(y) : box.bottom - size;
        if (ends.top < top + size && ends.bottom > top) problems.push('struck through');
        if (line.top < top + size && line.bottom > top) problems.push('number struck through');
        if (ends.right > box.right + 1 || ends.left < box.left) problems.push('cut off');
        if (Math.abs(mark.top - line.top) > 4) problems.push('arrow on a line of its own');
      }
      document.title = `${cells.length}/${[...new Set(problems)].join()}`"""
    page = escape(render_page(make_findings(rows=rows)))
    (tmp_path / "frame.html").write_text(
        f"<title></title><iframe width={width} height=800 style='border:0' "
        f'onload="{escape(measure)}" srcdoc="{page}"></iframe>',
        encoding="utf-8",
    )
    dom, _, _ = visit(tmp_path / "frame.html", tmp_path)
    seen, problems = re.search(r"<title>(\d+)/(.*)</title>", dom).groups()
    assert int(seen) > 0
    assert problems == ""


def test_a_phone_shows_every_protection_without_scrolling(page_text, findings, tmp_path):
    (tmp_path / "frame.html").write_text(
        "<title></title><iframe width=360 height=800 style='border:0' onload='"
        "const cells = [...this.contentDocument.querySelectorAll(`.heat td[data-of]`)];"
        "const seen = cells.filter((cell) => cell.getBoundingClientRect().width);"
        "const edge = Math.max(...seen.map((cell) => cell.getBoundingClientRect().right));"
        "const names = new Set(seen.map((cell) => cell.dataset.of));"
        "document.title = `${Math.ceil(edge)}/${[...names].join()}`'"
        f' srcdoc="{escape(page_text)}"></iframe>',
        encoding="utf-8",
    )
    dom, _, _ = visit(tmp_path / "frame.html", tmp_path)
    edge, names = re.search(r"<title>(\d+)/(.*)</title>", dom).groups()
    assert int(edge) <= 360
    attacked = {(row.protection, row.strength) for row in findings.rows if row.attack is not None}
    expected = {name if how == "-" else f"{name} {how}" for name, how in attacked}
    assert set(names.split(",")) == expected
