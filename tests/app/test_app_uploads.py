"""Files sent to the app: read, refused in words where they cannot be used, and seen by nobody else."""

import io
import json

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet

from app_server import opened, settled

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
    page.set_input_files("#file", {"name": name, "mimeType": "application/octet-stream", "buffer": content})
    # the name is shown once the file is read, an error if it is not
    page.wait_for_selector(f"#about:has-text('{name}'), #error:visible")
    return settled(page)


def ticked(page):
    return page.eval_on_selector_all(
        "#columns [name=columns]", "boxes => boxes.map(box => [box.value, box.checked])"
    )


BAD = {
    "dates.csv": (b"age,visit\n51.5,2020-01-02\n42,2021-03-04\n47,2021-03-04\n", "'visit' holds dates or times"),
    "missing.csv": (b"age,ldl\n51.5,3\n42,\n40,4\n", "misses 1 of 3 values, the first in row 2"),
    "nan.parquet": (as_parquet({"age": [1.0, float("nan"), 3.0]}), "misses 1 of 3 values"),
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


def test_bad_tables_are_refused_beside_their_columns(tab, address):
    opened(tab, f"{address}/data")
    for name, (content, message) in BAD.items():
        send(tab, name, content)
        words = tab.inner_text("#error")
        assert message in words, name
        assert tab.locator("#columns [name=columns]").count() > 0, name
        assert tab.is_hidden("#found"), name
        assert "--" not in words, name
        assert "drop" not in words, name
    assert tab.locator("#columns script, #columns img").count() == 0


def test_a_way_out_is_named_by_its_control(tab, address):
    opened(tab, f"{address}/data")
    send(tab, "dates.csv", BAD["dates.csv"][0])
    assert "leave it out (untick at “The columns” of Your data)" in tab.inner_text("#error")
    tab.uncheck("#columns [value=visit]")
    settled(tab)
    assert tab.is_hidden("#error")


def test_a_file_without_a_header_is_read_when_that_is_said(tab, address):
    """Until then the first record would be the names, which are released."""
    content = as_csv().split(b"\n", 1)[1]
    opened(tab, f"{address}/data")
    send(tab, "bare.csv", content)
    assert "reads as a value" in tab.inner_text("#error")
    assert "untick “The first line names the columns”" in tab.inner_text("#error")
    assert "demo cohort" in tab.inner_text("#about")
    assert "?" not in tab.url
    tab.uncheck("#header")
    tab.set_input_files("#file", {"name": "bare.csv", "mimeType": "text/csv", "buffer": content})
    tab.wait_for_selector("#columns [value=x1]")
    settled(tab)
    assert tab.is_hidden("#error")
    assert [name for name, _ in ticked(tab)] == ["x1", "x2", "x3"]
    assert "40 rows" in tab.inner_text("#about")


def test_text_in_another_encoding_and_a_sheet_are_read_if_that_is_said(tab, address, tmp_path):
    opened(tab, f"{address}/data")
    latin = as_csv().replace(b"bmi", b"l\xe4ngd", 1)
    send(tab, "latin.csv", latin)
    assert "at “Text is encoded as”" in tab.inner_text("#error")
    tab.select_option("#encoding", "latin-1")
    tab.set_input_files("#file", {"name": "latin.csv", "mimeType": "text/csv", "buffer": latin})
    tab.wait_for_selector("#columns [value=längd]")
    book = openpyxl.Workbook()
    book.create_sheet("second")
    book.active.append(["height", "weight"])
    for place in range(40):
        book.active.append([170 + (place * 7) % 11 + 0.5, 70 + (place * 5) % 13 + 0.5])
    book.save(tmp_path / "t.xlsx")
    send(tab, "t.xlsx", (tmp_path / "t.xlsx").read_bytes())
    assert "choose one of Sheet, second (at “Sheet” of Your data, and send it again)" in tab.inner_text("#error")
    tab.fill("#sheet", "Sheet")
    tab.set_input_files("#file", tmp_path / "t.xlsx")
    tab.wait_for_selector("#columns [value=height]")
    settled(tab)
    assert tab.is_hidden("#error")


def test_files_that_cannot_be_read_leave_all_as_it_was(tab, address):
    opened(tab, f"{address}/data")
    for name, (content, message) in UNREADABLE.items():
        send(tab, name, content)
        assert message in tab.inner_text("#error"), name
        assert "demo cohort" in tab.inner_text("#about")
        assert tab.inner_text("#uploading") == ""
    assert tab.is_visible("#found")
    tab.fill("#count", "12")
    tab.keyboard.press("Tab")
    settled(tab)
    assert tab.is_hidden("#error")


def test_an_error_is_about_the_last_thing_done(tab, address):
    """A table that is refused, a file that cannot be read, and a good table: each says only what is its own."""
    opened(tab, f"{address}/data")
    content, words = BAD["dates.csv"]
    send(tab, "dates.csv", content)
    assert words in tab.inner_text("#error")
    for name, (content, words) in UNREADABLE.items():
        send(tab, name, content)
        tab.wait_for_selector(f"#error:has-text({json.dumps(words)})")
    send(tab, "mine.csv", as_csv())
    assert tab.is_hidden("#error")


def test_a_column_is_unticked_or_said_to_be_measured(tab, address):
    opened(tab, f"{address}/data")
    send(tab, "who.csv", as_csv(np.column_stack([np.arange(40), VALUES]), ("id", *NAMES)))
    assert "'id' looks like an identifier" in tab.inner_text("#error")
    # another tick that goes does not make it a measurement
    tab.uncheck("[value=bmi]")
    settled(tab)
    assert "'id' looks like an identifier" in tab.inner_text("#error")
    assert tab.evaluate("document.activeElement.value") == "bmi"
    tab.click("#measured")
    settled(tab)
    assert tab.is_hidden("#error")
    assert tab.is_visible("#found")
    tab.click("#measured")
    tab.uncheck("[value=id]")
    settled(tab)
    assert tab.is_hidden("#error")
    assert "columns=ldl&columns=hba1c" in tab.url
    for name in ("ldl", "hba1c"):
        tab.uncheck(f"[value={name}]")
    settled(tab)
    assert "none is ticked" in tab.inner_text("#error")
    tab.click("#demo")
    settled(tab)
    assert tab.is_hidden("#error")
    assert "?" not in tab.url


def test_nobody_else_sees_a_table(tabs, address):
    mine, theirs = tabs(), tabs()
    opened(mine, f"{address}/data")
    send(mine, "mine.csv", as_csv())
    opened(theirs, mine.url)
    assert "belongs to one browser" in theirs.inner_text("#error")
    assert theirs.is_hidden("#found")
    with mine.expect_navigation():
        mine.click("nav a:has-text('Release')")
    assert "table=" in mine.url


def test_files_beyond_the_limit_are_refused(tab, serve_app):
    address = serve_app(upload_limit=500).address
    opened(tab, f"{address}/data")
    send(tab, "large.csv", as_csv())
    assert "more than the app takes" in tab.inner_text("#error")
    sent = tab.request.post(f"{address}/data/upload?name=large.csv", data=as_csv())
    assert sent.status == 413
    assert "--upload-limit" in sent.json()["error"]
