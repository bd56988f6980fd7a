"""Files sent to the app: read, refused in words where they cannot be used, and seen by nobody else."""

import html
import io
import json
import re

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet

from app_server import last_line, opened, settled, unfolded

NAMES = ("bmi", "ldl", "hba1c")
VALUES = np.random.default_rng(8).standard_normal((40, 3)).round(3)
VALUES[16] = [5, -4, 5]  # row 17 stands out


def as_csv(values=VALUES, names=NAMES):
    return "\n".join([",".join(names), *(",".join(map(str, line)) for line in values)]).encode()


def as_parquet(columns):
    place = io.BytesIO()
    pyarrow.parquet.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), place)
    return place.getvalue()


def send(page, name, content):
    """Send a file from the first step; what can be read is looked at on the second, with nothing folded."""
    if "/upload" not in page.url:
        opened(page, re.sub(r"(//[^/]*)/.*", r"\1/upload", page.url))
    page.set_input_files("#file", {"name": name, "mimeType": "application/octet-stream", "buffer": content})
    # the name is shown once the file is read, an error if it is not
    page.wait_for_selector(f"#about:has-text('{name}'), #error:visible")
    return unfolded(settled(page))


def ticked(page):
    return page.eval_on_selector_all(
        "#columns [name=columns]", "boxes => boxes.map(box => [box.value, box.checked])"
    )


BAD = {
    "dates.csv": (b"age,visit\n51.5,2020-01-02\n42,2021-03-04\n47,2021-03-04\n", "'visit' holds dates or times"),
    "missing.csv": (b"age,ldl\n51.5,3\n42,\n40,4\n", "1 of 3 rows lack a value: ldl (1)"),
    "nan.parquet": (as_parquet({"age": [1.0, float("nan"), 3.0]}), "lack a value: age (1)"),
    "infinite.parquet": (as_parquet({"age": [1.0, float("-inf")]}), "holds -inf in row 2"),
    "huge.csv": (b"age\n1e300\n2\n", "holds 1e+300 in row 1"),
    "true.parquet": (as_parquet({"age": [True, False]}), "no measurement is left to be drawn"),
    "twice.csv": (b"a,a,b\n1,2,3\n2,4,7\n", "'a' appears 2 times"),
    "who.csv": (b"patient_id,ldl\n1.5,3\n2.5,4\n", "'patient_id' looks like an identifier"),
    "row.csv": (b"age,ldl\n51.5,3\n", "one row"),
    "rows.csv": (b"age,ldl\n", "holds no rows"),
    "constant.csv": (b"age,ldl\n4,3\n4,2\n", "'age' is constant"),
    "formula.csv": (b"=cmd(),a\n1,2\n2,4\n", "spreadsheet formula"),
    "markup.csv": (b"<script>alert(1)</script>,a\n1,2\n2,4\n", "markup"),
    "image.csv": (b"<img src=x onerror=alert(1)>,a\n1,2\n2,4\n", "markup"),
    "quote.parquet": (as_parquet({"a\"b'": [1.0, 2.0]}), "quotes"),
    "break.parquet": (as_parquet({"a\nb": [1.0, 2.0]}), "'a\\nb' holds"),
    "nameless.csv": (b'"a",""\n1,2\n2,3\n', "has no name"),
}
UNREADABLE = {
    "empty.csv": (b"", "empty.csv is empty"),
    "latin.csv": ("age,längd\n1,2\n".encode("latin-1"), "is not UTF-8 text (line 1)"),
    "cut.parquet": (as_parquet({"a": [1.0, 2.0]})[:-20], "is not a complete Parquet file"),
    "ragged.csv": (b"a,b\n1,2\n3\n", "cannot be read as CSV"),
    "table.xlsx": (b"PK", "cannot be read as an Excel workbook"),
    "table.json": (b"{}", "save it as .csv, .tsv"),
}


HOSTILE = ("markup.csv", "image.csv", "quote.parquet", "break.parquet")


def test_bad_tables_are_refused_in_words(browser):
    for name, (content, message) in BAD.items():
        table = browser.send(content, name)[1]["fields"]["table"]
        said = last_line(browser.ask(f"/mend/standing?table={table}")[2])["parts"]["standing"]
        words = re.sub(r"<[^>]*>", "", said[said.index('id="hindrances"') : said.index("</ul>")])
        words = " ".join(html.unescape(words).split())
        assert " ".join(message.split()).replace("'", "") in words.replace("'", ""), name
        assert "--" not in words, name
        assert "drop" not in words, name


def test_bad_tables_are_refused_beside_their_columns(tab, address):
    opened(tab, f"{address}/upload")
    for name in ("constant.csv", *HOSTILE):
        content, message = BAD[name]
        send(tab, name, content)
        assert message.replace("'", "") in tab.inner_text("#hindrances").replace("'", ""), name
        assert tab.locator("#columns [name=columns]").count() > 0, name
        assert tab.is_hidden("#judged"), name
    assert tab.locator("#columns script, #columns img, #standing script, #standing img").count() == 0


def test_a_way_out_is_one_click_or_a_tick(tab, address):
    opened(tab, f"{address}/upload")
    send(tab, "dates.csv", BAD["dates.csv"][0])
    before = tab.url
    tab.click("#hindrances button:text-is('Leave out visit')")
    settled(tab)
    assert "Nothing stands in the way" in tab.inner_text("#standing")
    tab.click("#chosen button")
    settled(tab)
    assert tab.url == before
    tab.uncheck("#columns [value=visit]")
    settled(tab)
    assert tab.locator("#hindrances").count() == 0


def test_a_file_without_a_header_is_read_when_that_is_said(tab, address):
    """Until then the first record would be the names, which are released."""
    content = as_csv().split(b"\n", 1)[1]
    opened(tab, f"{address}/upload")
    send(tab, "bare.csv", content)
    assert "reads as a value" in tab.inner_text("#error")
    assert "untick “The first line names the columns”" in tab.inner_text("#error")
    assert "demo cohort" in tab.inner_text("#about")
    assert "?" not in tab.url
    tab.uncheck("#header")
    tab.set_input_files("#file", {"name": "bare.csv", "mimeType": "text/csv", "buffer": content})
    tab.wait_for_selector("#columns [value=x1]", state="attached")
    settled(tab)
    assert tab.is_hidden("#error")
    assert [name for name, _ in ticked(tab)] == ["x1", "x2", "x3"]
    assert "40 rows" in tab.inner_text("#about")


def test_text_in_another_encoding_and_a_sheet_are_read_if_that_is_said(tab, address, tmp_path):
    opened(tab, f"{address}/upload")
    latin = as_csv().replace(b"bmi", b"l\xe4ngd", 1)
    send(tab, "latin.csv", latin)
    assert "at “Text is encoded as”" in tab.inner_text("#error")
    tab.select_option("#encoding", "latin-1")
    tab.set_input_files("#file", {"name": "latin.csv", "mimeType": "text/csv", "buffer": latin})
    tab.wait_for_selector("#columns [value=längd]", state="attached")
    book = openpyxl.Workbook()
    book.create_sheet("second")
    book.active.append(["height", "weight"])
    for place in range(40):
        book.active.append([170 + (place * 7) % 11 + 0.5, 70 + (place * 5) % 13 + 0.5])
    book.save(tmp_path / "t.xlsx")
    send(tab, "t.xlsx", (tmp_path / "t.xlsx").read_bytes())
    assert "choose one of Sheet, second (at “Sheet” of Upload, and send it again)" in tab.inner_text("#error")
    tab.fill("#sheet", "Sheet")
    tab.set_input_files("#file", tmp_path / "t.xlsx")
    tab.wait_for_selector("#columns [value=height]", state="attached")
    settled(tab)
    assert tab.is_hidden("#error")


def test_files_that_cannot_be_read_leave_all_as_it_was(tab, address):
    opened(tab, f"{address}/upload")
    for name, (content, message) in UNREADABLE.items():
        send(tab, name, content)
        tab.wait_for_selector(f"#error:has-text({json.dumps(message)})")
        assert "demo cohort" in tab.inner_text("#about")
        assert tab.inner_text("#uploading") == ""
    send(tab, "mine.csv", as_csv())
    assert tab.is_hidden("#error")


def test_a_column_is_unticked_or_said_to_be_measured(tab, address):
    opened(tab, f"{address}/upload")
    send(tab, "who.csv", as_csv(np.column_stack([np.arange(40), VALUES]), ("visits", *NAMES)))
    assert "visits looks like an identifier" in tab.inner_text("#hindrances")
    # another tick that goes does not make it a measurement
    tab.uncheck("[value=bmi]")
    settled(tab)
    assert "visits looks like an identifier" in tab.inner_text("#hindrances")
    assert tab.evaluate("document.activeElement.value") == "bmi"
    tab.click("text=It is a measurement, keep it")
    settled(tab)
    assert tab.locator("#hindrances").count() == 0
    tab.click("#chosen li:has-text('as you said') button")
    tab.uncheck("[value=visits]")
    settled(tab)
    assert tab.locator("#hindrances").count() == 0
    assert "columns=ldl&columns=hba1c" in tab.url
    for name in ("ldl", "hba1c"):
        tab.uncheck(f"[value={name}]")
    settled(tab)
    assert "none is ticked" in tab.inner_text("#hindrances")


def test_what_is_named_after_people_is_never_a_measurement(tab, address):
    opened(tab, f"{address}/upload")
    send(tab, "who.csv", as_csv(np.column_stack([np.arange(40), VALUES]), ("patient_id", *NAMES)))
    assert tab.locator("#hindrances button").all_inner_texts() == ["Leave out patient_id"]
    opened(tab, f"{tab.url}&measured=yes")  # nor if an address says so
    assert "patient_id looks like an identifier" in tab.inner_text("#hindrances")


def test_nobody_else_sees_a_table(tabs, address):
    mine, theirs = tabs(), tabs()
    opened(mine, f"{address}/upload")
    send(mine, "mine.csv", as_csv())
    for step in ("mend", "budget", "draw"):
        opened(theirs, mine.url.replace("/mend", f"/{step}"))
        assert "belongs to one browser" in theirs.inner_text("#error")
    with mine.expect_navigation():
        mine.click("nav a:has-text('Draw')")
    assert "table=" in mine.url


def test_files_beyond_the_limit_are_refused(tab, serve_app):
    address = serve_app(upload_limit=500).address
    opened(tab, f"{address}/upload")
    send(tab, "large.csv", as_csv())
    assert "more than the app takes" in tab.inner_text("#error")
    sent = tab.request.post(f"{address}/upload/upload?name=large.csv", data=as_csv())
    assert sent.status == 413
    assert "--upload-limit" in sent.json()["error"]
