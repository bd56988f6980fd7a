"""Read the conda recipe as rattler-build does, which refuses what it does not know: checks/recipe.py RECIPE."""

import sys

from rattler_build import Stage0Recipe, VariantConfig


def main() -> None:
    """Parse and render the recipe; an error names the entry."""
    for variant in Stage0Recipe.from_file(sys.argv[1]).render(VariantConfig()):
        print(f"{sys.argv[1]}: {variant.recipe.to_dict()['package']}, as rattler-build reads it")


if __name__ == "__main__":
    main()
