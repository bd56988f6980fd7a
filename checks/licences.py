"""Write the licences of all packages in this environment as a table, and refuse what a user might not expect.

    build/fresh/bin/python checks/licences.py > build/licences.md

Run with the base install alone, it fails for licences that ask something of who passes on a program
that uses the package (GPL, AGPL, LGPL and the like) and for those it does not know.
"""

import re
import sys
from importlib.metadata import Distribution, distributions

PERMISSIVE = re.compile(
    r"\b(MIT|BSD|Apache|ISC|PSF|Python Software Foundation|0BSD|Unlicense|Zlib|CC0|HPND|MPL|Mozilla Public)",
    re.IGNORECASE,
)
COPYLEFT = re.compile(r"\b(A|L)?GPL|GNU|EUPL|SSPL|Commons Clause|proprietary", re.IGNORECASE)


def licence_of(package: Distribution) -> str:
    """Return what a package says: an SPDX expression, else its classifiers, else the first line of its licence."""
    about = package.metadata
    if told := about.get("License-Expression"):
        return str(told)
    words = [each.split(" :: ")[-1] for each in about.get_all("Classifier") or () if each.startswith("License ::")]
    if words := [each for each in words if each != "OSI Approved"]:
        return "; ".join(words)
    return (about.get("License") or "unknown").strip().splitlines()[0][:60]


def main() -> None:
    """Write the table; end with 1 where a licence is not as expected."""
    found = {each.metadata["Name"]: (each.version, licence_of(each)) for each in distributions()}
    print("| package | version | licence |\n|---|---|---|")
    for name, (version, licence) in sorted(found.items(), key=lambda item: item[0].lower()):
        print(f"| {name} | {version} | {licence} |")
    odd = [name for name, (_, told) in found.items() if COPYLEFT.search(told) or not PERMISSIVE.search(told)]
    if odd:
        print(f"licences to look at: {', '.join(sorted(odd))}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
