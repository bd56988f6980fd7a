"""What the values of a release may not be: of another form, in an order, or the table's own."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import allbutone as abo
from allbutone.releases.check import require_clean
from allbutone.releases.check_files import DescribedRelease
from allbutone.releases.check_values import (
    Table,
    Values,
    _equal_rows,
    dataset_against_table,
    order_findings,
    table_beside,
)
from allbutone.tables.column import CATEGORY, Column
from clean_releases import N, confidential, found_in


def rewritten(path, change):
    """Change a Parquet file's table and write it as another program would."""
    pyarrow.parquet.write_table(change(pyarrow.parquet.read_table(path)), path)


POCKETS = {
    "the pandas index": lambda table: table.replace_schema_metadata({"pandas": '{"index_columns": ["jo"]}'}),
    "custom metadata": lambda table: table.replace_schema_metadata({"origin": "/home/me"}),
    "metadata of a column": lambda table: table.cast(
        pa.schema([table.schema.field(0).with_metadata({"source": "ward 7"}), table.schema.field(1)])
    ),
    "another column": lambda table: table.append_column("weight", table.column(0)),
    "columns in another order": lambda table: table.select([1, 0]),
    "text": lambda table: table.set_column(0, "age", pa.array(["x"] * table.num_rows)),
    "sorted rows": lambda table: table.sort_by("ldl"),
    "values beyond the limits": lambda table: table.set_column(
        1, "ldl", pa.array(np.r_[-1.0, table["ldl"].to_numpy()[1:]])
    ),
    "more digits": lambda table: table.set_column(0, "age", pa.array(table["age"].to_numpy() + 0.001)),
    "gaps": lambda table: table.set_column(1, "ldl", pa.array([None, *table["ldl"].to_pylist()[1:]])),
}
WORDS = dict.fromkeys(POCKETS, "footer holds metadata") | {
    "another column": "not those of the release",
    "columns in another order": "not those of the release",
    "text": "no numbers",
    "sorted rows": "sorted by 'ldl'",
    "values beyond the limits": "beyond its declared limits",
    "more digits": "more digits than the 0 decimals",
    "gaps": "missing values",
}


@pytest.mark.parametrize("what", POCKETS)
def test_the_pockets_of_parquet(planted, what):
    folder = planted("parquet")
    rewritten(folder / "dataset-001.parquet", POCKETS[what])
    found_in(folder, WORDS[what])


def test_parquet_of_another_program_with_paths_or_bytes_between(planted):
    folder = planted("parquet")
    path = folder / "dataset-001.parquet"
    whole = path.read_bytes()
    name = pyarrow.parquet.read_metadata(path).created_by.encode()
    path.write_bytes(whole.replace(name, b"/home/me/a.py".ljust(len(name), b" ")))
    found_in(folder, "created it")
    # behind the first letters, and the pages where they were: offsets are of no avail to who looks at sizes
    end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(whole[:end] + b"hidden" + whole[end:])
    found_in(folder, "6 bytes that belong to none")
    with pytest.raises(abo.InputError, match="6 bytes"):
        require_clean(folder)
    path.write_bytes(b"PAR1 and no more")
    found_in(folder, "cannot be read")
    # of a column all of whose values come once the smallest is told in the footer alone
    low = float(
        pyarrow.parquet.ParquetFile(folder / "dataset-002.parquet").metadata.row_group(0).column(1).statistics.min
    )
    path.write_bytes((folder / "dataset-002.parquet").read_bytes())
    told, other = np.array([low]).tobytes(), np.array([low / 2]).tobytes()
    whole, end = path.read_bytes(), path.stat().st_size - 8
    foot = end - int.from_bytes(path.read_bytes()[-8:-4], "little")
    path.write_bytes(whole[:foot] + whole[foot:].replace(told, other))
    found_in(folder, "other smallest and largest values of 'ldl'")


TEXTS = {
    "a comment": lambda text: "# from ward 7\n" + text,
    "a mark at the start": lambda text: "\ufeff" + text,
    "a space": lambda text: text.replace("\n", " \n", 3),
    "another form of digits": lambda text: text.replace("\n", "\n0", 2).replace("\n0", "\n", 1),
    "another column": lambda text: text.replace("\n", ",1\n").replace(",1\n", ',"n"\n', 1),
    "a name of other letters": lambda text: text.replace("age", "AGE", 1),
    "an empty line": lambda text: text + "\n",
    "text": lambda text: text.replace("\n", "\nx", 2).replace("\nx", "\n", 1),
}


@pytest.mark.parametrize("what", TEXTS)
def test_text_that_says_more_than_its_values(planted, what):
    folder = planted("datasets")
    path = folder / "dataset-001.csv"
    path.write_text(TEXTS[what](path.read_text()))
    found_in(folder, "dataset-001.csv")


def test_levels_that_are_not_public_and_tables_that_are_not_described(planted):
    folder = planted("mixed")
    path = folder / "dataset-001.csv"
    path.write_text(path.read_text().replace('"m"', '"x"', 1))
    found_in(folder, "levels that release.json does not list")


def test_an_order_along_the_rows_is_found_and_chance_is_not(planted):
    folder = planted("datasets")
    path = folder / "dataset-001.csv"
    whole = pyarrow.csv.read_csv(path, convert_options=pa.csv.ConvertOptions(column_types={"age": pa.float64()}))
    halves = whole.sort_by("age")
    pyarrow.csv.write_csv(pa.concat_tables([halves.slice(k, 1) for k in (*range(1, N, 2), *range(0, N, 2))]), path)
    found_in(folder, "'age' changes along the rows")


def carried(folder, change):
    """Write rows that come from the table into a dataset."""
    table = confidential()
    path = folder / "dataset-001.csv"
    how = pa.csv.ConvertOptions(column_types={"age": pa.float64()})
    synthetic = pyarrow.csv.read_csv(path, convert_options=how)
    pyarrow.csv.write_csv(change(table.select(["age", "ldl"]), synthetic), path)
    return table


CARRIED = {
    "one row": (
        lambda real, drawn: pa.concat_tables([real.slice(3, 1), drawn.slice(1)]),
        "1 of its rows are rows",
    ),
    "one value": (
        lambda real, drawn: drawn.set_column(1, "ldl", pa.array(np.r_[real["ldl"][9].as_py(), drawn["ldl"][1:]])),
        "1 value of 'ldl' stand in the table",
    ),
    "the order": (
        lambda real, drawn: drawn.take(np.argsort(drawn["ldl"])[np.argsort(np.argsort(real["ldl"]))]),
        "in the table's order: 'ldl'",
    ),
    "all rows in another order": (
        lambda real, drawn: real.take(np.random.default_rng(1).permutation(N)),
        "60 of its",
    ),
}


@pytest.mark.parametrize("what", CARRIED)
def test_rows_values_and_order_of_the_table_are_found(planted, what):
    change, words = CARRIED[what]
    folder = planted("datasets")
    table = carried(folder, change)
    found_in(folder, words, table=table)
    found_in(folder / "dataset-001.csv", words.split(":")[0].split(" stand")[0][2:], table=table)


def test_equal_rows_by_chance_are_none_of_the_tables():
    # whole numbers of two columns: of 400 rows many are equal to one of 400 others
    rng = np.random.default_rng(2)
    table = pa.table({"a": rng.normal(0, 3, 400).round(), "b": rng.normal(0, 3, 400).round()})
    declared = {"columns": {"a": {"decimals": 0}, "b": {"decimals": 0, "low": -2.0}}}
    columns = abo.Schema.of(declared).columns
    drawn = pa.table({"a": rng.normal(0, 3, 400).round(), "b": np.maximum(rng.normal(0, 3, 400).round(), -2)})
    real = table_beside(table, DescribedRelease({}, {}, columns, ()), abo.Schema())
    assert _equal_rows(Values.of_frame(drawn, columns), real) == 0
    fine = abo.Schema.of({"columns": {name: {"decimals": 3} for name in "ab"}}).columns
    real = table_beside(table, DescribedRelease({}, {}, fine, ()), abo.Schema())
    assert _equal_rows(Values.of_frame(table.slice(0, 5), fine), real) == 5


def test_drawn_rows_are_never_found_to_be_in_an_order(rng):
    """Also with a rare level, with few rows, and with half of the values at a limit."""
    columns = (Column("x"), Column("y", low=0.0), Column("rare", CATEGORY, levels=("no", "yes")))
    for n in (2, 5, 20, 200, 2000):
        for _ in range(60):
            rare = rng.permutation(np.arange(n) < max(1, n // 500)).astype(float)
            drawn, real = (
                Values(columns, np.column_stack([rng.normal(size=n), np.maximum(rng.normal(size=n), 0), each]))
                for each in (rare, rng.permutation(rare))
            )
            assert not list(order_findings("drawn", drawn, 3))
            assert not list(dataset_against_table("drawn", drawn, Table(real, frozenset(), kept=("rare",)), 3))
