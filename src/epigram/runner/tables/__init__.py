"""Printed tables of papers: their definition, the runs that measure their cells, and the results."""
