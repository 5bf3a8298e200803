"""Routing: exchange types and the graph that bindings make of them. Pure, standard library only.

A newcomer adds an exchange type with one file, one line in registry.py and one test.
"""
