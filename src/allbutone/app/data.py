"""Your data: being written."""

from allbutone.app.page import Page

PAGE = Page("data", "Your data", ())
