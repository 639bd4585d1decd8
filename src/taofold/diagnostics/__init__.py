"""The failing checks in what programs print for people: tests, compilers, linters, shells.

Pure functions of text: nothing is run and no file is opened. Knows nothing about models.
"""
