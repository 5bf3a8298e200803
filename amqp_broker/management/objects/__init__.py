"""The objects of a node as rows: a module a kind, pages.py for the verbs that show them."""
