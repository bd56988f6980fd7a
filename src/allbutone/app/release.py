"""Release: being written."""

from allbutone.app.page import Page

PAGE = Page("release", "Release", ())
