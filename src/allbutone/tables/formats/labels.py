"""What columns are called in words: kept with a table in the metadata of its columns."""

import pyarrow as pa

LABEL = b"label"


def labels_in(table: pa.Table) -> dict[str, str]:
    """Return what columns are called in words, where their file says so."""
    told = {field.name: (field.metadata or {}).get(LABEL) for field in table.schema}
    return {name: label.decode() for name, label in told.items() if label}


def label_metadata(text: str | None) -> dict[bytes, bytes] | None:
    """Return the metadata of a column that is called so; none where it is not called anything."""
    return {LABEL: " ".join(text.split()).encode()} if text and text.strip() else None
