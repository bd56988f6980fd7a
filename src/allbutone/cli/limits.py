"""What limits do to released values, in words."""

from allbutone.releases.joined import Released, told_datasets
from allbutone.releases.mixed.release import Release
from allbutone.support.arrays import to_numpy


def limits_in_words(release: Released | Release) -> str:
    """Say how many released values stand at a limit, and what that means to who attacks; else nothing."""
    if isinstance(release, Release):
        drawn = release.mechanism.measurements
        datasets = (each.select(drawn).natural for each in release.datasets)
        told = release.schema.for_columns(drawn).clipped_in_words(datasets)
    else:
        told = release.schema.clipped_in_words(map(to_numpy, told_datasets(release)))
    return f" {told}; the adversary knows that these were drawn beyond it." if told else ""
