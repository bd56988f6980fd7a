"""The report as a function: what `allbutone report` writes, from Python."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allbutone.model.prior_file import AnyPrior, prior_of
from allbutone.releases.folder import AnyRelease, load_unguaranteed
from allbutone.releases.mixed.release import Release, reading_of
from allbutone.releases.release import PlainRelease
from allbutone.reports.assessment import assess
from allbutone.reports.findings import Finding
from allbutone.reports.html import confidential_report, public_report
from allbutone.reports.verdict import Verdict
from allbutone.support.errors import Cure, InputError
from allbutone.support.notebook import paragraphs
from allbutone.tables.records import Records
from allbutone.tables.safe_write import fresh_file, require_distinct, require_outside


@dataclass(frozen=True)
class Report:
    """A page that was written, and what it says: nothing is judged where it was made from the release alone."""

    path: Path
    verdict: Verdict | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        return self.verdict.headline if self.verdict else "Made from the release alone; nothing was judged"

    def __repr__(self) -> str:
        """Return the verdict and where the page is."""
        lines = [self.verdict.how_sure] if self.verdict else []
        lines += [f"{each.subject}: {each.words}" for each in self.findings]
        return "\n".join([f"{self.headline}. Written: {self.path}", *lines])

    def _repr_html_(self) -> str:
        found = [self.verdict.how_sure] if self.verdict else []
        found += [f"{each.subject}: {each.words}" for each in self.findings]
        return paragraphs(f"{self.headline}.", *found, f"Written: {self.path}")


def report(
    table: Any,
    release: AnyRelease,
    prior: AnyPrior | None = None,
    *,
    out: str | Path = "report.html",
    public: bool = False,
    probability: float = 0.5,
    note: str = "",
    force: bool = False,
    **how_to_read: Any,
) -> Report:
    """Write the whole case for or against a release into one HTML file, and return what it finds.

    The page is confidential, and only its owner can read it. With `public` it is one that may go with the
    release, made from the release and the `note` alone; the table is read only to check its columns. A value
    counts as disclosed from `probability` on. Nothing is overwritten without `force`. How the table is read is
    said as to `Records.of` (complete_cases, missing_codes, …).

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.NIWSynthesizer().fit(cohort).sample(datasets=1)
    >>> abo.report(cohort, release, out="about.html", public=True)
    Made from the release alone; nothing was judged. Written: about.html
    """
    path = Path(out)
    if path.suffix != ".html":
        raise InputError(f"out names an .html file, got {str(out)!r}", Cure("name one", "out", "report.html"))
    if not isinstance(release, PlainRelease | Release | str | Path):
        raise InputError("a report is of one release", "give one; risk takes several together")
    files = [Path(each) for each in (table, prior) if isinstance(each, str | Path)]
    require_distinct([path], files)
    if isinstance(release, str | Path) and not public:
        require_outside(path, Path(release))
    with fresh_file(path, force=force, private=not public) as work:
        release = load_unguaranteed(release) if isinstance(release, str | Path) else release
        records = Records.of(table, **reading_of(release, how_to_read))
        if public:
            work.write_text(public_report(release, note), encoding="utf-8")
            return Report(path)
        given = None if prior is None else prior_of(prior, records.columns, records.schema)
        assessment = assess(records, release, given, probability=probability)
        work.write_text(confidential_report(assessment, note=note), encoding="utf-8")
    return Report(path, assessment.verdict, tuple(assessment.findings))
