"""Rows of any tool: what they give away of the people in the table, whatever made them."""
