"""Studies: being written."""

from allbutone.app.page import Page

PAGE = Page("studies", "Studies", ())
